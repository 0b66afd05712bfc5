"""A cancellation at each await of session, connection and transport leaves nothing, and the next client is served.

Each test has one conversation, cancelled once at each place that its server's tasks come to (`cancelling.everywhere`). After
each: no task more than before, no session, generator or file, no client counted as present, the slot free, no error in the
log; then a client is served.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.cancelling import Injector, everywhere, never_waited, tasks
from tests.support.fault_peers import CLOSE, TEXT, frame, opening

import reactor_trio.testing.memory_server as kit
from reactor_trio.configuration.settings import LimitSettings
from reactor_trio.errors import CommandError, ReactorError
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    connected,
    disconnected,
    event,
    file_uploaded,
)
from reactor_trio.testing import open_server
from reactor_trio.transport import http, serve_http, trio_websocket_workarounds, websocket
from reactor_trio.transport import wire_stream as stream_module

#: what a client may be told when its server's side is cancelled
ENDS = (ReactorError, CommandError, trio.BrokenResourceError, trio.ClosedResourceError)


class Picture(Output):
    main: Video


class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    fail: bool = False
    file: UploadedFile | None = InputField(default=None)


class Note(ModelMessage):
    """Said now and then."""

    level: int


class Counted:
    """Counts what of its sessions is open; each hook, handler and cleanup awaits."""

    open_generators = open_hooks = 0

    @connected
    async def come(self):
        self.open_hooks += 1
        await trio.sleep(0.001)

    @disconnected
    async def go(self):
        self.open_hooks -= 1
        await trio.sleep(0.001)

    @event
    async def wait(self) -> int:
        await trio.sleep(0.002)
        return 1

    @file_uploaded
    async def arrive(self, file):
        await trio.sleep(0.001)


class AsyncPipeline(Counted, ReactorPipeline):
    fps = 100
    state: State

    async def inference(self):
        self.open_generators += 1
        try:
            while True:
                if self.state.fail:
                    raise ValueError("asked to")
                await trio.sleep(0.001)
                await self.send(Note(level=self.state.level))
                yield Picture(main=np.full((2, 8, 8, 3), self.state.level, np.uint8))
        finally:
            await trio.sleep(0.001)
            self.open_generators -= 1


class SyncPipeline(Counted, ReactorPipeline):
    fps = 100
    state: State

    def inference(self):
        self.open_generators += 1
        try:
            while True:
                if self.state.fail:
                    raise ValueError("asked to")
                yield Picture(main=np.full((8, 8, 3), self.state.level, np.uint8))
                yield Idle
        finally:
            self.open_generators -= 1


class RunLoop(Counted, ReactorModel):
    fps = 100
    level = 0

    @event
    def set_level(self, level: int):
        self.level = level

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(Picture(main=np.full((8, 8, 3), self.level, np.uint8)))


THOROUGH = pytest.mark.parametrize(
    "thorough", [pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.soak)]
)
MODELS = pytest.mark.parametrize("model", [AsyncPipeline, SyncPipeline, RunLoop])


# ---- conversations ----------------------------------------------------------------------------------------------------


async def talk(server, **options) -> None:
    """What a client does in a short session; its end may come at any point."""
    async with server.connect(**options) as client:
        await client.take(1)
        await client.command("set_level", level=3)
        assert await client.command("wait") == 1
        upload = await client.upload(b"x" * 300_000, name="a.bin")
        if server.model.__class__ is not RunLoop:
            await client.command("set_file", file=upload)
        await client.take(1)
        await client.close()


async def be_served(server) -> None:
    """The next client."""
    async with server.connect() as client:
        (frame,) = await client.take(1)
        await client.command("set_level", level=7)
        while frame.data.flat[0] != 7:
            (frame,) = await client.take(1)
        await client.close()


@asynccontextmanager
async def sound(server, caplog) -> AsyncIterator[None]:
    """After the block nothing is left of it, and the next client is served."""
    await server.settle()
    before = tasks()
    caplog.clear()
    yield
    await trio.sleep(10)  # the longest of what a goodbye, a lingering close or a silent client may take here
    await server.settle()
    assert tasks() - before == {}
    assert server.leftovers() == []
    assert (server.runtime.waiting_room.admission.live, server.runtime.waiting_room.admission.waiting) == (0, 0)
    assert (server.model.open_generators, server.model.open_hooks) == (0, 0)
    assert server.http("/health").status == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    server.served.clear()
    await be_served(server)
    server.served.clear()


Conversation = Callable[[kit.TestServer, Injector], Awaitable[None]]


async def cancel_everywhere(server, caplog, serve_client: Conversation, **how):
    async def once(injector: Injector) -> None:
        async with sound(server, caplog):
            await suppressed(serve_client, server, injector)

    campaign = await everywhere(once, **how)
    print(campaign)
    assert campaign.reached >= 0.8 * campaign.places  # the others are places of rare orders of ready tasks
    return campaign


# ---- what is cancelled ------------------------------------------------------------------------------------------------


def cancel_session(server, injector: Injector) -> None:
    """The next session's `run`."""
    run_session = type(server.runtime.session_manager).run_session.__get__(server.runtime.session_manager)

    async def wrapped(opened) -> None:
        del server.runtime.session_manager.run_session
        await injector.run(run_session, opened)

    server.runtime.session_manager.run_session = wrapped


def cancel_conversation(server, injector: Injector) -> None:
    """The conversation of the next client that is admitted."""
    serve = server._site.serve

    async def wrapped(exchange):
        del server._site.serve
        conversation = await serve(exchange)
        return partial(injector.run, conversation)

    server._site.serve = wrapped


@THOROUGH
@MODELS
@pytest.mark.parametrize("cancel", [cancel_session, cancel_conversation])
async def test_a_session_cancelled_anywhere(autojump_clock, caplog, model, cancel, thorough):
    async def serve_client(server, injector):
        cancel(server, injector)
        await talk(server)

    async with open_server(model, step_cost=0.004) as server:
        await cancel_everywhere(server, caplog, serve_client, thorough=thorough)


@THOROUGH
async def test_a_waiting_client_cancelled_anywhere(autojump_clock, caplog, thorough):
    """It waits in the queue behind another, which leaves; the one behind it moves up, whatever becomes of it."""

    async def serve_client(server, injector):
        async def be_next():
            async with server.connect() as client:
                await client.take(1)
                await client.close()

        async with server.connect() as first, trio.open_nursery() as nursery:
            await first.take(1)
            cancel_conversation(server, injector)
            nursery.start_soon(suppressed, talk, server)
            await trio.sleep(0.5)
            nursery.start_soon(be_next)
            await trio.sleep(0.5)
            await first.close()

    async with open_server(SyncPipeline, step_cost=0.004) as server:
        await cancel_everywhere(server, caplog, serve_client, thorough=thorough)


@THOROUGH
@pytest.mark.parametrize("cancel", [cancel_session, cancel_conversation])
async def test_a_client_that_comes_back_cancelled_anywhere(autojump_clock, caplog, cancel, thorough):
    """Its session, from before it is lost; or the conversation with which it comes back, also over one that is half open."""

    async def serve_client(server, injector):
        if cancel is cancel_session:
            cancel(server, injector)
        async with server.connect() as first:
            await first.take(1)
            await first.vanish()
            token = first.resume_token
            if cancel is cancel_conversation:
                cancel(server, injector)
            await trio.sleep(0.5)
            async with server.connect(resume=token) as second:
                await second.take(1)
                async with server.connect(resume=second.resume_token) as third:
                    await third.take(1)
                    await third.close()

    async with open_server(SyncPipeline, step_cost=0.004, resume_window=2) as server:
        await cancel_everywhere(server, caplog, serve_client, thorough=thorough)


@THOROUGH
async def test_a_viewer_cancelled_anywhere(autojump_clock, caplog, thorough):
    """Who is watched goes on without a gap."""

    async def serve_client(server, injector):
        async with server.connect() as first:
            frames = await first.take(1)
            cancel_conversation(server, injector)
            await suppressed(watch, server)
            frames += await first.take(5)
            assert [frame.seq for frame in frames] == list(range(6))
            await first.close()

    async def watch(server):
        async with server.connect(role="viewer") as viewer:
            await viewer.take(3)

    async with open_server(SyncPipeline, step_cost=0.004) as server:
        await cancel_everywhere(server, caplog, serve_client, thorough=thorough)


async def suppressed(function, *args) -> None:
    try:
        await function(*args)
    except* ENDS:
        pass


# ---- the transport ----------------------------------------------------------------------------------------------------


async def plain(server, connect) -> None:
    """Requests on one connection: in pieces, with a body that nobody wants, refused."""
    stream = await connect()
    try:
        unwanted = GET.replace(b"\r\n\r\n", b"\r\ncontent-length: 9\r\n\r\n")
        for request in [GET, GET.replace(b"/health", b"/nothing"), unwanted]:
            for piece in [request[:20], request[20:]]:
                await stream.send_all(piece)
                await trio.sleep(0.01)
            if b"content-length" in request:
                await stream.send_all(b"123456789")
            await read_answer(stream)
        await stream.send_all(GET + GET)  # the second one is there already when the first one is answered
        await read_answer(stream)
        await read_answer(stream)
        await stream.send_all(GET.replace(b"GET", b"PUT"))
        await trio.sleep(0.01)
        await read_answer(stream)
        while await stream.receive_some(65536):
            pass
    finally:
        await trio.aclose_forcefully(stream)


async def upload(server, connect) -> None:
    """A file in two pieces, for a session of another connection."""
    async with server.connect() as client:
        stream = await connect()
        try:
            head = (
                "POST /uploads?name=a HTTP/1.1\r\nhost: localhost\r\n"
                f"authorization: Bearer {server.sessions[-1].uploads.token}\r\n"
                "expect: 100-continue\r\ncontent-length: 600000\r\n\r\n"
            )
            await stream.send_all(head.encode())
            await answer(stream)  # go on
            for _ in range(2):
                await trio.sleep(0.01)
                await stream.send_all(bytes(300_000))
            await answer(stream)
        finally:
            await trio.aclose_forcefully(stream)
        await client.take(1)
        await client.close()


async def leave(server, connect) -> None:
    """A session that its client ends politely."""
    await talk_raw(connect, frame(TEXT, b'{"type": "set_level", "data": {"level": 1}, "id": 1}'), frame(CLOSE, b"\x03\xe8"))


async def fail(server, connect) -> None:
    """A session that the server ends, with a goodbye and a close frame."""
    nonsense = frame(TEXT, b'{"type": "reactor.nonsense", "data": {}}')
    await talk_raw(connect, nonsense, b"", end=lambda: server.sessions[-1].end("draining"))


async def break_framing(server, connect) -> None:
    """A client that is told 1002."""
    await talk_raw(connect, frame(TEXT, b"{}", masked=False))


async def send_too_much(server, connect) -> None:
    """A client that is told 1009 and goes on."""
    await talk_raw(connect, frame(TEXT, bytes(300_000)), frame(TEXT, b"{}"))


async def hurry(server, connect) -> None:
    """A client that sends more text than `text_per_second`, and is read more slowly."""
    await talk_raw(connect, *[frame(TEXT, bytes(200_000))] * 3, answer_close=False)


async def vanish(server, connect) -> None:
    """A client that is gone, with a frame half sent."""
    await talk_raw(connect, frame(TEXT, b"{}" * 100)[:50], answer_close=False)


async def fall_silent(server, connect) -> None:
    """A client that neither reads nor writes any more."""
    stream = await connect()
    try:
        await stream.send_all(opening())
        await answer(stream)
        await trio.sleep(10)
    finally:
        await trio.aclose_forcefully(stream)


async def be_refused(server, connect) -> None:
    """A client that is refused inside its WebSocket."""
    stream = await connect()
    try:
        await stream.send_all(opening("/ws?model=another&refusals=bye"))
        while await stream.receive_some(65536):
            pass
    finally:
        await trio.aclose_forcefully(stream)


async def talk_raw(connect, *data: bytes, answer_close: bool = True, end=None) -> None:
    stream = await connect()
    try:
        await stream.send_all(opening())
        await answer(stream)
        await stream.receive_some(65536)
        await stream.receive_some(65536)
        for piece in data:
            await trio.sleep(0.01)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream.send_all, piece)
                await stream.receive_some(65536)
        if end is not None:
            end()
        if answer_close:
            while await stream.receive_some(65536):
                pass
    finally:
        await trio.aclose_forcefully(stream)


IMPATIENT = LimitSettings(ping_interval=0.5, silence=1.0, stall=1.0, handshake=1.0)
GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def read_answer(stream) -> None:
    """Head and body, which may come in pieces."""
    data = b""
    head = re.compile(rb"content-length: (\d+).*?\r\n\r\n(.*)", re.DOTALL)
    while not (match := head.search(data)) or len(match[2]) < int(match[1]):
        more = await stream.receive_some(65536)
        if not more:
            raise trio.BrokenResourceError
        data += more


async def answer(stream) -> None:
    data = await stream.receive_some(65536)
    if not data:
        raise trio.BrokenResourceError
    assert data.startswith(b"HTTP/1.1 ")


#: functions with awaits at which nobody waits here: for a client too many, for a real socket (its writes, its errors), after
#: a bug, and where the memory stream, the site or the end of a nursery is hardly ever waited for
NOT_HERE = {
    "turn_away", "_write", "wait_send_all_might_not_block", "send_parts", "_let_others_run",
    "receive_some", "send_all", "serve_http", "serve_websocket", "_end_side", "close_politely", "finish",
}  # fmt: skip

#: Trio runs ready tasks in any order, so at which await a task waits may differ. Each round after the first is about the
#: awaits that are left, which are fewer each time.
ROUNDS = 30


@THOROUGH
async def test_a_connection_cancelled_anywhere(autojump_clock, caplog, thorough):
    """HTTP and WebSocket, by clients of all manners; in the end the cancellation has met each await of the transport."""
    campaigns, how = [], {"thorough": thorough, "within": "/transport/"}
    async with open_server(AsyncPipeline, step_cost=0.004, websocket=True, limits=IMPATIENT) as server:
        for _ in range(ROUNDS):
            known = set()
            for script in [plain, upload, leave, fail, break_framing, send_too_much, hurry, vanish, fall_silent, be_refused]:
                serve_client = partial(on_a_connection, script)
                campaigns.append(await cancel_everywhere(server, caplog, serve_client, **how, known=known))
            missed = never_waited(campaigns, http, stream_module, websocket, trio_websocket_workarounds)
            missed = [each for each in missed if each.function not in NOT_HERE]
            if not missed:
                break
            how = {"thorough": False, "awaits": set().union(*(each.lines for each in missed))}
    assert not missed, missed


async def on_a_connection(script, server, injector) -> None:
    async def connect() -> trio.abc.Stream:
        theirs, ours = trio.testing.lockstep_stream_pair()
        nursery.start_soon(serve, theirs)
        return ours

    async def serve(stream) -> None:
        site, closing = server._site, server.runtime.closing
        await injector.run(partial(serve_http, stream, site.serve, site.rules, closing=closing))
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")

    async with trio.open_nursery() as nursery:
        await suppressed(script, server, connect)
