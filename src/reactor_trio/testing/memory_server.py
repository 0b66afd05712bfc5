"""A server in memory, in virtual time."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import msgspec
import trio
import trio.testing

from reactor_trio.client.client_transport import Transport
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.running import running
from reactor_trio.client.uploads import HttpPost, Post
from reactor_trio.client.urls import resuming_url, session_url
from reactor_trio.concurrency import ModelHost, open_model_host
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.refusal_log import Refusals
from reactor_trio.errors import ConnectionRefused, ModelFailed, SessionEnded
from reactor_trio.execution.model_side import Hook, model_source, place_model
from reactor_trio.interface.model import Model
from reactor_trio.interface.video_model import VideoModel
from reactor_trio.server.moderation_hook import check_on_loop
from reactor_trio.server.reactor_site import ReactorSite
from reactor_trio.server.runtime import Runtime, one_failure
from reactor_trio.session import Session
from reactor_trio.testing.activity import Mark, done_since, mark
from reactor_trio.testing.author_failures import Failures
from reactor_trio.testing.inline_process import inline_ranks
from reactor_trio.testing.memory_connection import MemoryLink, MemoryMessages, MemoryTransport, Stall, StallableStream
from reactor_trio.testing.session_client import SessionClient
from reactor_trio.testing.simulated_link import Link, LinkTransport
from reactor_trio.testing.virtual_time import HeldTime, InlineTime, StepCost, virtual_sleep
from reactor_trio.transport import Conversation, Refused, Request, Response, serve_http

_HOST = "127.0.0.1"

A = TypeVar("A")
R = TypeVar("R")


class TestServer:
    """A served model without sockets; `open_server` makes one."""

    __test__ = False  # not a test, whatever pytest thinks of its name

    def __init__(
        self, runtime: Runtime, sessions: list[Session], host: ModelHost, nursery: trio.Nursery, websocket: bool
    ) -> None:
        self.runtime = runtime
        #: every session there was, in order
        self.sessions = sessions
        #: what ended the model, if something did
        self.failure: ModelFailed | None = None
        self._failure_seen = False
        self._failures = Failures()
        host.observer = self._failures
        self._clients: list[SessionClient] = []
        self._host = host
        self._nursery = nursery
        self._websocket = websocket
        self._site = ReactorSite(runtime, _HOST)
        self._refusals = Refusals(runtime.metrics, lambda: runtime.metrics.ready)
        self._peers = 0

    @property
    def model(self) -> Any:
        """The served model instance."""
        process = getattr(self.runtime.placement, "process", None)
        return self.runtime.model if process is None else process.loaded

    @asynccontextmanager
    async def connect(
        self,
        *,
        video: Iterable[str] = ("raw",),
        audio: Iterable[str] | None = None,
        role: Literal["control", "viewer"] = "control",
        model: str | None = None,
        token: str | None = None,
        on_queued: Callable[[int, int], object] | None = None,
        on_waiting: Callable[[str], object] | None = None,
        on_ending: Callable[[str, float | None], object] | None = None,
        address: str | None = None,
        link: Link | None = None,
        feedback: bool = False,
        resume: str | None = None,
        after: int | None = None,
        comes_back: bool = False,
    ) -> AsyncGenerator[SessionClient, None]:
        """Connect a client; enters once its session has begun, which in a full server means to wait.

        `resume` is the `resume_token` of a session that lost its client, `after` the number of the last message of it that
        came; the client gets those that follow. With `comes_back` a client that vanishes comes back by itself, as the real
        one does. `link` gives the connection a rate, a delay and a buffer. `address` is where it comes from, for the limits
        that each address has; by default from nowhere, which has none (not with `websocket=True`). Leaving the block closes
        politely.
        Raises ConnectionRefused or SessionEnded as the real client does; after the block what author code has raised by then
        of which the test has not heard. What it raises later, or on a thread of its own, is raised after the server's block.
        """
        if link is not None and self._websocket:
            raise TypeError("link= shapes whole messages: use a server without websocket=True")
        if link is not None and comes_back:
            raise TypeError("comes_back= needs a client without link=")
        if address is not None and self._websocket:
            raise TypeError("address= needs a server without websocket=True")
        stall = Stall()
        given = {"resume": resume, "after": after}
        query = urlencode({key: value for key, value in given.items() if value is not None})
        url = session_url(
            f"ws://{_HOST}/ws?{query}".rstrip("?"), video=video, audio=audio, role=role, model=model, token=token,
            feedback=feedback,
        )

        async def open_one(url: str) -> tuple[Transport, Any]:
            if self._websocket:
                return await self._open_websocket(url, stall)
            return await self._open_memory(url, stall, address)

        async def reopen(token: str, after: int, video: Iterable[str] | None) -> Transport:
            transport, client._vanish = await open_one(resuming_url(url, token, after, video))
            return transport

        if link is not None:
            transport, vanish, stall = await self._open_shaped(url, link, address)
        else:
            transport, vanish = await open_one(url)
        post: Post = HttpPost(url, stream=self._open_stream) if self._websocket else self._post
        client = SessionClient(
            transport, self, stall, vanish, on_queued, post, link, feedback, on_ending, reopen if comes_back else None,
            on_waiting,
        )  # fmt: skip
        self._clients.append(client)
        async with running(client):
            yield client
        if self._host.thread is None and not self._host.opened_author_threads:  # else it would hang on what a thread does
            await self.settle()
            self.check_failures(client)

    def http(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Any:
        """The server's answer to a plain request: status, content_type, body."""
        return self._site.respond(_request(path, method, headers))

    async def drain(self) -> None:
        """Go down as on SIGTERM."""
        await self.runtime.drain()

    async def wait_left(self, client: SessionClient) -> None:
        """Return when the session of `client` is over on the server's side."""
        for session in self.sessions:
            if session.id == client.session_id:
                await session.ended.wait()
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing more happens at this instant, on the test's loop or the model's."""
        await trio.testing.wait_all_tasks_blocked()
        await self._host.run(self._host.time.settle, False)

    def model_error(self, ended: SessionEnded) -> BaseException | None:
        """The author's exception behind a session that ended with `model_error`."""
        if ended.reason != "model_error":
            return None
        if self.runtime.journal.phase == "failed":
            self._failure_seen = True
        return self.runtime.last_error

    def check_failures(self, client: SessionClient | None = None) -> None:
        """Raise what author code raised and the test has not heard of, in this client's session or in any."""
        watched = [one for one in self._clients if one._protocol.welcome is not None]
        for one in watched:
            if one.heard_of_failure:
                self._failures.hear(one.session_id)
        sessions = (one for one in self.sessions if client is None or one.id == client.session_id)
        self._failures.check(sessions, {one.session_id for one in watched})

    def mark(self, client: SessionClient) -> Mark:
        """How far the model of this client's session is."""
        return mark(self._failures.model_sessions.get(client.session_id), self.runtime.metrics.drops())

    async def done_since(self, before: Mark, client: SessionClient) -> str:
        """What the model of this client's session did since then, in words."""
        model_session, drops = self._failures.model_sessions.get(client.session_id), self.runtime.metrics.drops()
        came = {name: track.frames for name, track in client.statistics().tracks.items()}
        return await done_since(before, model_session, drops, self._host, came)

    def leftovers(self) -> list[str]:
        """What of past sessions is still there, in words; nothing, if the runtime keeps its promise."""
        renditions = self.runtime.session_manager.renditions
        left = [f"session {s.id}: {what}" for s in self.sessions for what in s.leftovers() + renditions(s).leftovers()]
        if (calls := self._host.live_calls - self.runtime.placement.running) > 0:
            left.append(f"{calls} model-side calls still run")
        if self.runtime.session_manager.present:
            left.append(f"{self.runtime.session_manager.present} clients are still connected")
        return left

    async def _watch(self, runtime: Runtime) -> None:
        try:
            await runtime.watch_model()
        except ModelFailed as failure:
            self.failure = failure

    async def _open_memory(self, url: str, stall: Stall, address: str | None = None) -> tuple[Transport, Any]:
        talk = await self._admitted(url, address)
        link = MemoryLink(stall, self.runtime.settings.limits.stall)
        transport = MemoryTransport(link)
        self._nursery.start_soon(talk, MemoryMessages(link, self._peer()))
        return transport, _vanishing(transport)

    async def _open_shaped(self, url: str, link: Link, address: str | None) -> tuple[Transport, Any, Stall]:
        talk = await self._admitted(url, address)
        messages, transport, stall = link._open(self.runtime.settings.limits.stall, self._peer())
        self._nursery.start_soon(talk, messages)
        return transport, _vanishing(transport), stall

    async def _admitted(self, url: str, address: str | None) -> Conversation:
        """Ask for a WebSocket. Raises ConnectionRefused."""
        admitted = await self._site.admit(msgspec.structs.replace(_request(url, "GET", None), peer=address or "memory"))
        if isinstance(admitted, Response):
            after = admitted.headers.get("retry-after")
            raise ConnectionRefused(admitted.status, admitted.body.decode().strip(), float(after) if after else None)
        return admitted

    def _peer(self) -> str:
        self._peers += 1
        return f"memory:{self._peers}"

    async def _open_websocket(self, url: str, stall: Stall) -> tuple[Transport, Any]:
        stream = await self._open_stream(stall)
        return await open_websocket(url, stream=stream), partial(anyio.aclose_forcefully, stream)

    async def _open_stream(self, stall: Stall | None = None) -> StallableStream:
        """A connection to the real HTTP, in memory."""
        theirs, ours = trio.testing.lockstep_stream_pair()

        async def serve() -> None:
            site, closing = self._site, self.runtime.draining
            refused = self._refusals.note
            await serve_http(theirs, site, site.limits, closing=closing, methods=site.methods, refused=refused)

        self._nursery.start_soon(serve)
        return StallableStream(ours, stall or Stall())

    async def _post(self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> tuple[int, bytes]:
        """An upload without HTTP."""
        await trio.lowlevel.checkpoint()
        request = _request(target, "POST", headers)
        try:
            taker = self._site.take_body(request)
            assert taker is not None
            response = await taker(body)
        except Refused as refused:
            response = refused.response
        return response.status, response.body


@asynccontextmanager
async def open_server(
    model: type[Model],
    *,
    config: Mapping[str, Any] | None = None,
    step_cost: StepCost | None = None,
    thread: bool = False,
    websocket: bool = False,
    name: str | None = None,
    debug: bool = False,
    settings: Settings | None = None,
    moderate: Hook | None = None,
    **runtime: Any,
) -> AsyncGenerator[TestServer, None]:
    """Load a model and serve it in memory; after the block, prove that nothing is left.

    Args:
        config: what `load` gets.
        step_cost: seconds of virtual time that each step takes; None: what passes in it.
        thread: run the model on its real thread, the clock held while a step runs (for generators).
        websocket: carry messages over the real HTTP and WebSocket framing, in memory.
        name, debug, moderate: as for `serve`; the hook is called on the test's loop.
        settings, **runtime: the `runtime:` section of the manifest, whole or key by key (`queue=0`, `fps=10`).

    Raises ModelFailed if `load` fails, and after the block if `run()` failed and no `take` has raised it; then also what
    author code of a session raised of which the test has not heard. An exception of the block comes out as it is.
    """
    settings = settings or msgspec.convert(runtime, Settings)
    source = model_source(model, name=name, config=config, settings=settings, moderate=moderate)
    source = msgspec.structs.replace(source, path="the:test's")
    failure: BaseException | None = None
    server: TestServer | None = None
    time = HeldTime(step_cost) if thread else InlineTime(step_cost)
    with one_failure():
        async with open_model_host(time) as host, AsyncExitStack() as virtual, trio.open_nursery() as nursery:
            if issubclass(model, VideoModel):
                virtual.enter_context(virtual_sleep(host))
            open_process = partial(inline_ranks, host, nursery, model)
            placement = place_model(source, nursery, host, check_on_loop, open_process=open_process, in_thread=_call_here)
            sessions: list[Session] = []
            served = Runtime(
                placement, name=source.name, settings=settings, debug=debug, worker=_here, disk=_call_here,
                on_session=sessions.append,
            )  # fmt: skip
            server = TestServer(served, sessions, host, nursery, websocket)
            try:
                await nursery.start(partial(served.run, source.config, watch=server._watch))
                await served.at_rest.wait()  # takes no time here, so no client comes before it
                yield server
            except trio.Cancelled:
                raise
            except BaseException as error:
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    server.check_failures()
    assert_nothing_left(server)
    if server.failure is not None and not server._failure_seen:
        raise server.failure


@asynccontextmanager
async def open_session(
    model: type[Model], *, video: Iterable[str] = ("raw",), link: Link | None = None, **options: Any
) -> AsyncGenerator[SessionClient, None]:
    """One client of a server of its own; `video` and `link` as for `connect`, `options` are those of `open_server`.

    After the block raises what author code raised and the test has not heard of.
    """
    async with open_server(model, **options) as server, server.connect(video=video, link=link) as client:
        yield client


def assert_nothing_left(server: TestServer) -> None:
    """Raise AssertionError naming each task, thread, generator or queued frame that a past session left behind."""
    left = server.leftovers()
    if not server._host.live_calls:
        left += [f"thread {t.name}" for t in threading.enumerate() if t is server._host.thread and t.is_alive()]
    assert not left, "left behind: " + "; ".join(left)


def _vanishing(transport: MemoryTransport | LinkTransport) -> Callable[[], Awaitable[None]]:
    async def vanish() -> None:
        transport.vanish()

    return vanish


async def _call_here(function: Callable[..., Any], *arguments: Any, abandon_on_cancel: bool = False) -> Any:
    """Call `function` on this loop: a worker thread would run beside the virtual clock."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


async def _here(function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
    """As `_call_here`; encoding and decoding take no virtual time."""
    await trio.lowlevel.checkpoint()
    return function(argument)


def _request(url: str, method: str, headers: Mapping[str, str] | None) -> Request:
    parts = urlsplit(url)
    query: dict[str, str] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        query.setdefault(key, value)
    given = tuple((key.lower(), value) for key, value in (headers or {}).items())
    return Request(
        method=method, path=parts.path, query=query, host=_HOST, authority=_HOST, headers=given, peer="memory"
    )
