"""A server in memory, in virtual time."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import signature
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
import trio
import trio.testing

from reactor_trio.client.client_transport import Transport
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.http_request import Answer, Get, Post, http_get, http_post
from reactor_trio.client.running import running
from reactor_trio.client.urls import resuming_url, session_url
from reactor_trio.concurrency import ModelHost, open_model_host
from reactor_trio.configuration.checked_struct import nearest
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import ServedSession
from reactor_trio.errors import ConnectionRefused, ReactorError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.model import Model
from reactor_trio.kinds.table import kind_of
from reactor_trio.placement.model_source import Hook, model_source, placement_loader
from reactor_trio.server.moderation_hook import check_on_loop
from reactor_trio.server.one_failure import one_failure
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import Observers, ProcessParts
from reactor_trio.testing.inline_process import inline_ranks
from reactor_trio.testing.inspected_server import InspectedServer
from reactor_trio.testing.memory_connection import ClientEnd, Stall, StallableStream, open_ends
from reactor_trio.testing.memory_exchange import HOST, admit, request_to, respond
from reactor_trio.testing.session_client import SessionClient
from reactor_trio.testing.simulated_link import Link
from reactor_trio.testing.virtual_time import HeldTime, InlineTime, StepCost, virtual_sleep
from reactor_trio.transport import REFUSAL_HEADER, Response, serve_http


class TestServer(InspectedServer):
    """A served model without sockets; `open_server` makes one."""

    __test__ = False  # not a test, despite its name

    def __init__(
        self, runtime: Runtime, sessions: list[ServedSession], host: ModelHost, nursery: trio.Nursery, websocket: bool
    ) -> None:
        super().__init__(runtime, sessions, host)
        self._nursery = nursery
        self._websocket = websocket
        self._peers = 0

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
        fork: str | None = None,
        world: str | None = None,
    ) -> AsyncGenerator[SessionClient, None]:
        """Connect a client; enters once its session has begun, which in a full server means to wait.

        `resume` is the `resume_token` of a session that lost its client, `after` the number of the last message of it that
        came; the client gets those that follow. With `comes_back` a client that vanishes comes back by itself, as the real
        one does. `link` gives the connection a rate, a delay and a buffer. `address` is where it comes from, for the limits
        that each address has; by default from nowhere, which has none (not with `websocket=True`). Leaving the block closes
        politely. `fork` and `world` are as for the real client.
        Raises ConnectionRefused or SessionEnded as the real client does. After the block it raises the exceptions of author
        code that the test has not seen; those that come later, or on a thread of the author, are raised after the server's
        block.
        """
        if link is not None and self._websocket:
            raise TypeError("link= shapes whole messages: use a server without websocket=True")
        if link is not None and comes_back:
            raise TypeError("comes_back= needs a client without link=")
        if address is not None and self._websocket:
            raise TypeError("address= needs a server without websocket=True")
        stall = Stall() if link is None else link._reader
        given = {"resume": resume, "after": after, "fork": fork, "world": world}
        query = urlencode({key: value for key, value in given.items() if value is not None})
        url = session_url(
            f"ws://{HOST}/ws?{query}".rstrip("?"), video=video, audio=audio, role=role, model=model, token=token,
            feedback=feedback,
        )

        async def open_one(url: str) -> Transport:
            if self._websocket:
                return await self._open_websocket(url, stall)
            return await self._open_memory(url, stall, address, link)

        async def reopen(*resuming: Any) -> Transport:
            return await open_one(resuming_url(url, *resuming))

        post: Post = partial(http_post, url, connect=self._open_stream) if self._websocket else self._post
        get: Get = partial(self._get_http, url) if self._websocket else self._get
        client = SessionClient(
            await open_one(url), self, stall, link, on_queued=on_queued, post=post, get=get, feedback=feedback,
            on_ending=on_ending, reopen=reopen if comes_back else None, on_waiting=on_waiting,
        )  # fmt: skip
        self._clients.append(client)
        async with running(client):
            yield client
        if self._host.thread is None and not self._host.opened_author_threads:  # which could block this wait
            await self.settle()
            self.check_failures(client)

    async def _open_memory(self, url: str, stall: Stall, address: str | None = None, link: Link | None = None) -> ClientEnd:
        """Connect without a socket, over `link` if one is given. Raises ConnectionRefused."""
        admitted = await admit(self._site, msgspec.structs.replace(request_to(url), peer=address or "memory"))
        if isinstance(admitted, Response):
            headers, text = admitted.headers, admitted.body.decode().strip()
            after, code = headers.get("retry-after"), headers.get(REFUSAL_HEADER)
            raise ConnectionRefused(admitted.status, text, retry_after=float(after) if after else None, code=code)
        self._peers += 1
        patience, peer = self.runtime.settings.limits.stall, f"memory:{self._peers}"
        here, there = open_ends(stall, patience, peer) if link is None else link._open(patience, peer)
        self._nursery.start_soon(admitted, here)
        return there

    async def _open_websocket(self, url: str, stall: Stall) -> Transport:
        return await open_websocket(url, stream=await self._open_stream(stall))

    async def _open_stream(self, stall: Stall | None = None) -> StallableStream:
        """Open a connection to the real HTTP server, in memory."""
        theirs, ours = trio.testing.lockstep_stream_pair()

        async def serve() -> None:
            site, closing = self._site, self.runtime.closing
            await serve_http(theirs, site.serve, site.rules, closing=closing)

        self._nursery.start_soon(serve)
        return StallableStream(ours, stall or Stall())

    async def _post(self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> Answer:
        """Upload a file without HTTP."""
        await trio.lowlevel.checkpoint()
        response = await respond(self._site, request_to(target, "POST", headers), body)
        return Answer(response.status, response.body, response.headers.get(REFUSAL_HEADER))

    async def _get(self, target: str, most: int) -> Answer:
        """Get something without HTTP."""
        await trio.lowlevel.checkpoint()
        response = await respond(self._site, request_to(target))
        return Answer(response.status, response.body[:most], response.headers.get(REFUSAL_HEADER))

    async def _get_http(self, url: str, target: str, most: int) -> Answer:
        return await http_get(url, target, {}, most=most, connect=self._open_stream)

    async def _accept(self, connections: trio.Nursery) -> None:
        """Run connections in the nursery of the runtime, as a server with sockets does: its encoders outlive them."""
        self._nursery = connections


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
    introduction: Introduction = NOT_INTRODUCED,
    on_progress: Callable[[float | None, str], object] = lambda _fraction, _text: None,
    **runtime: Any,
) -> AsyncGenerator[TestServer, None]:
    """Load a model and serve it in memory; after the block, prove that nothing is left.

    Args:
        config: what `load` gets.
        step_cost: seconds of virtual time that each step takes; None: what passes in it.
        thread: run the model on its real thread, the clock held while a step runs (for generators).
        websocket: carry messages over the real HTTP and WebSocket framing, in memory.
        name, debug, moderate: as for `serve`; the hook is called on the test's loop.
        introduction: how the model introduces itself (`Manifest.introduction`).
        on_progress: called with fraction and text of each `progress(fraction, text)` in the model's load.
        settings: the `runtime:` section of the manifest, whole.
        **runtime: the same key by key: `queue=0`, `fps=10`.

    Raises ModelFailed if `load` fails, and after the block if `run()` failed and no `take` has raised it; also the
    exceptions of author code that the test has not seen. An exception of the block comes out unchanged.
    """
    for key in runtime:
        if key not in Settings.__struct_fields__:
            meant = nearest(key, (*_OPTIONS, *Settings.__struct_fields__))
            raise ReactorError(f"open_server: unknown option {key}; {meant}", anchor="wrong-use")
    settings = settings or Settings(**runtime)
    declaration = declaration_of(model)
    source = model_source(model, name=name, config=config, settings=settings, moderate=moderate)
    source = msgspec.structs.replace(source, path="the:test's")
    failure: BaseException | None = None
    server: TestServer | None = None
    time = HeldTime(step_cost) if thread else InlineTime(step_cost)
    with one_failure():
        async with open_model_host(time) as host, AsyncExitStack() as virtual, trio.open_nursery() as nursery:
            if kind_of(declaration).threads:
                virtual.enter_context(virtual_sleep(host))
            open_process = partial(inline_ranks, host, nursery, model)
            load = placement_loader(source, nursery, host, check_on_loop, open_process=open_process, in_thread=_call_here)
            sessions: list[ServedSession] = []
            served = Runtime(
                load, name=source.name, settings=settings, parts=ProcessParts(_here, _call_here),
                observers=Observers(on_progress=on_progress, on_session=sessions.append), introduction=introduction,
                debug=debug,
            )  # fmt: skip
            server = TestServer(served, sessions, host, nursery, websocket)
            try:
                await nursery.start(partial(served.run, source.config, listeners=[server._accept], watch=server._watch))
                await served.preparation.at_rest.wait()  # takes no virtual time, so no client comes earlier
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

    After the block it raises the exceptions of author code that the test has not seen.
    """
    async with open_server(model, **options) as server, server.connect(video=video, link=link) as client:
        yield client


#: the keyword arguments of both
_OPTIONS = tuple(
    name
    for function in (open_server, open_session)
    for name, option in signature(function).parameters.items()
    if option.kind is option.KEYWORD_ONLY
)


def assert_nothing_left(server: TestServer) -> None:
    """Raise AssertionError naming each task, thread, generator or queued frame that a past session left behind."""
    left = server.leftovers()
    if not server._host.live_calls:
        left += [f"thread {t.name}" for t in threading.enumerate() if t is server._host.thread and t.is_alive()]
    assert not left, "left behind: " + "; ".join(left)


async def _call_here(function: Callable[..., Any], *arguments: Any, **_of_threads: Any) -> Any:
    """Call `function` on this loop, whatever is said of threads: one would run beside the virtual clock."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


async def _here(function: Callable[[Any], Any], argument: Any, /, limit: float = math.inf) -> Any:
    """As `_call_here`; encoding and decoding take no virtual time."""
    await trio.lowlevel.checkpoint()
    return function(argument)
