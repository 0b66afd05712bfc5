"""Each gap of trio-websocket that `transport/trio_websocket_workarounds.py` works around is still there.

These tests use the library without the workarounds. A test that fails after an update of the library says that a workaround
may go. That the workarounds work is the matter of `test_websocket_stream.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from tests.support.transport_peers import KEY, frame, opening
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream
from wsproto import ConnectionType, WSConnection
from wsproto.events import Request as OpeningRequest
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from reactor_trio.transport.trio_websocket_workarounds import plain_head
from reactor_trio.transport.upgrade import Handshake

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Counted(trio.abc.Stream):
    """A stream that counts the reads, and whether it is closed."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.reads = 0
        self.closed = False

    async def receive_some(self, max_bytes=None):
        self.reads += 1
        return await self.stream.receive_some(max_bytes)

    async def send_all(self, data):
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self):
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self):
        self.closed = True
        await self.stream.aclose()


@asynccontextmanager
async def bare(
    first: bytes = b"", *, pair=trio.testing.memory_stream_pair, **options: int
) -> AsyncIterator[tuple[WebSocketConnection, Counted, trio.abc.Stream]]:
    """The library's connection, its stream, and the client's end. `first` comes in the same segment as the opening."""
    ours, theirs = pair()
    stream = Counted(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(theirs.send_all, opening() + first)
        request = await wrap_server_stream(nursery, stream, **options)
        async with trio.open_nursery() as accepting:
            accepting.start_soon(theirs.receive_some, 1000)
            connection = await request.accept()
        yield connection, stream, theirs
        nursery.cancel_scope.cancel()


async def written(theirs: trio.abc.Stream) -> bytes:
    """What the library writes within a second."""
    data = b""
    with trio.move_on_after(1):
        while piece := await theirs.receive_some():
            data += piece
    return data


HEADS = {
    "two Connection headers": opening("Connection: keep-alive"),
    "two protocols in Upgrade": opening("Upgrade: h2c, websocket", drop="Upgrade"),
    "a Host that is not IDNA": opening(host="xn--99999999999.test"),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_strict_head(head):
    with pytest.raises((RemoteProtocolError, UnicodeError)):
        WSConnection(ConnectionType.SERVER).receive_data(head)


@pytest.mark.parametrize("subprotocol", [None, "reactor.v1"])
def test_the_plain_head_is_taken(subprotocol):
    connection = WSConnection(ConnectionType.SERVER)
    connection.receive_data(plain_head(Handshake(KEY, subprotocol)))
    (event,) = connection.events()
    assert isinstance(event, OpeningRequest)
    assert event.subprotocols == ([] if subprotocol is None else [subprotocol])
    assert dict(event.extra_headers)[b"sec-websocket-key"] == KEY.encode()


async def test_lost_bytes_after_the_head(autojump_clock):
    async with bare(frame(TEXT, b"lost")) as (connection, _stream, theirs):
        await theirs.send_all(frame(TEXT, b"next"))
        assert await connection.get_message() == "next"


async def test_lost_bytes_before_the_handshake_is_accepted(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        await theirs.send_all(opening())
        request = await wrap_server_stream(nursery, ours)
        await theirs.send_all(frame(TEXT, b"lost"))
        await trio.testing.wait_all_tasks_blocked()
        connection = await request.accept()
        await theirs.send_all(frame(TEXT, b"next"))
        assert await connection.get_message() == "next"
        nursery.cancel_scope.cancel()


def test_small_reads():
    assert inspect.signature(wrap_server_stream).parameters["receive_buffer_size"].default == 4096


async def test_frames_without_a_turn(autojump_clock):
    """The library handles a thousand pongs of one read, and the loop has no turn between them."""
    turns, read = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with bare(receive_buffer_size=65536) as (_connection, stream, theirs), trio.open_nursery() as nursery:
        receive = stream.stream.receive_some

        async def noting(max_bytes=None):
            read.append((turns, 0))
            data = await receive(max_bytes)
            read.append((turns, len(data)))
            return data

        stream.stream.receive_some = noting
        await theirs.send_all(frame(PONG, b""))  # for the read that runs already
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(others)
        await theirs.send_all(frame(PONG, b"") * 1000)
        while len(read) < 3:
            await trio.lowlevel.checkpoint()
        (_, waiting), (begun, size), (done, _) = read
        assert (waiting, size, done - begun) == (0, 6000, 0)
        nursery.cancel_scope.cancel()


async def test_empty_fragments(autojump_clock):
    """The library keeps them all, in the attribute that the workaround reads."""
    async with bare(max_message_size=1) as (connection, _stream, theirs):
        await theirs.send_all(frame(TEXT, b"", fin=False) + frame(0, b"", fin=False) * 20_000)
        await trio.testing.wait_all_tasks_blocked()
        assert connection.closed is None
        assert len(connection._message_parts) == 20_001


async def test_blocked_reader(autojump_clock):
    async with bare() as (connection, _stream, theirs):
        await theirs.send_all(frame(TEXT, b"1") + frame(TEXT, b"2") + frame(TEXT, b"3") + frame(PING, b"!"))
        assert await written(theirs) == b""
        assert await connection.get_message() == "1"
        assert await connection.get_message() == "2"
        assert await written(theirs) == bytes([0x80 | PONG, 1]) + b"!"


@pytest.mark.parametrize("raw", [frame(TEXT, b"x", masked=False), frame(TEXT, b"\xff")], ids=["1002", "1007"])
async def test_silent_failure(raw, autojump_clock):
    async with bare() as (connection, stream, theirs):
        await theirs.send_all(raw)
        assert await written(theirs) == b""
        assert connection.closed.code in (1002, 1007)
        assert stream.closed


async def test_frames_after_a_close_frame(autojump_clock):
    """The library does not notice a close frame that goes past it."""
    async with bare() as (_connection, stream, theirs):
        await stream.send_all(bytes([0x80 | CLOSE, 0]))
        await theirs.send_all(frame(PING, b""))
        assert await written(theirs) == bytes([0x80 | CLOSE, 0, 0x80 | PONG, 0])


async def test_one_more_read(autojump_clock):
    async with bare(max_message_size=1) as (connection, stream, theirs):
        before = stream.reads
        await theirs.send_all(frame(TEXT, b"too big"))
        await trio.testing.wait_all_tasks_blocked()
        assert connection.closed.code == 1009
        assert stream.reads == before + 1


async def test_ping_after_1009(autojump_clock):
    with pytest.raises(ExceptionGroup) as raised:
        async with bare(max_message_size=1) as (_connection, _stream, theirs):
            await theirs.send_all(frame(TEXT, b"too big") + frame(PING, b""))
            await trio.testing.wait_all_tasks_blocked()
    assert raised.group_contains(LocalProtocolError)


async def test_endless_close_of_a_silent_client(autojump_clock):
    async with bare() as (connection, _stream, _theirs):
        with trio.move_on_after(1000) as patience:
            await connection.aclose()
        assert patience.cancelled_caught


async def test_endless_close_after_1009(autojump_clock):
    async with bare(max_message_size=1) as (connection, stream, theirs):
        await theirs.send_all(frame(TEXT, b"too big"))
        with pytest.raises(ConnectionClosed):
            await connection.get_message()
        await theirs.send_all(frame(CLOSE, b""))
        await connection.aclose()
        await trio.sleep(1000)
        assert not stream.closed


async def test_half_a_frame(autojump_clock):
    async with bare(pair=trio.testing.lockstep_stream_pair) as (connection, stream, _theirs):
        with pytest.raises(ValueError, match="str or bytes"):
            await connection.send_message(memoryview(b"x"))
        with trio.move_on_after(1) as scope:
            await connection.send_message(b"half of it")
        assert scope.cancelled_caught
        assert connection.closed is None
        assert not stream.closed
