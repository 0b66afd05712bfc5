"""WireStream: whole writes or none, stalls, and progress."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
import trio.testing

from reactor_trio.transport import StreamStalled, WireStream

PIECE = 64 * 1024


async def test_parts_are_written_in_order_and_counted(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    payload = memoryview(bytes(range(256)) * 1000)
    await wire.send_parts(b"head", b"", payload)
    assert await theirs.receive_some() == b"head" + payload
    await trio.sleep(7)
    await theirs.send_all(b"abc")
    assert await wire.receive_some() == b"abc"
    assert wire.last_received == 7


async def test_parts_of_any_shape_are_bytes(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    picture = memoryview(bytes(range(24))).cast("B", (2, 4, 3))
    await WireStream(ours).send_parts(b"", picture)
    assert await theirs.receive_some() == bytes(range(24))


async def test_pushed_back_bytes_come_first(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    wire.push_back(b"cdef")
    wire.push_back(b"ab")
    await theirs.send_all(b"g")
    await trio.sleep(7)
    assert [await wire.receive_some(3), await wire.receive_some(3)] == [b"abc", b"def"]
    assert wire.last_received == 0
    assert await wire.receive_some() == b"g"


async def test_writers_take_turns(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours)
    received = b""
    async with trio.open_nursery() as nursery:
        for letter in (b"a", b"b", b"c"):
            nursery.start_soon(wire.send_parts, letter, letter * PIECE * 2, letter)
            await trio.testing.wait_all_tasks_blocked()
        while len(received) < 3 * (2 * PIECE + 2):
            received += await theirs.receive_some(1000)
    assert received == b"".join(letter * (2 * PIECE + 2) for letter in (b"a", b"b", b"c"))


async def test_a_write_cancelled_half_way_tears_the_stream(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_parts, b"half a frame")
        assert await theirs.receive_some(4) == b"half"
        nursery.cancel_scope.cancel()
    assert wire.torn == "a write was cancelled half-way"
    with pytest.raises(trio.BrokenResourceError, match="half-way"):
        await wire.send_all(b"another")
    received = b""
    while piece := await theirs.receive_some():
        received += piece
    assert b"another" not in received


async def test_a_writer_cancelled_while_it_waits_for_its_turn_does_no_harm(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, b"first")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await wire.send_all(b"second")
        nursery.start_soon(wire.send_all, b"third")
        assert await theirs.receive_some() == b"first"
        assert await theirs.receive_some() == b"third"
    assert wire.torn is None


async def test_a_writer_cancelled_before_it_begins_does_no_harm(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    with trio.CancelScope() as scope:
        scope.cancel()
        await wire.send_all(b"never")
    await wire.send_all(b"whole")
    assert await theirs.receive_some() == b"whole"


async def test_a_writer_cancelled_as_its_turn_comes_does_no_harm(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours)
    scope_of_second = trio.CancelScope()

    async def first():
        await wire.send_all(b"first")
        scope_of_second.cancel()  # the lock has gone to the second just now

    async def second():
        with scope_of_second:
            await wire.send_all(b"second")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        assert await theirs.receive_some() == b"first"
    assert scope_of_second.cancelled_caught
    assert wire.torn is None


async def test_writers_that_wait_behind_a_torn_write_fail(autojump_clock):
    ours, _theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours)

    async def first():
        with trio.move_on_after(1):
            await wire.send_all(b"first")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError, match="half-way"):
            await wire.send_all(b"second")
    assert trio.current_time() == 1


async def test_a_stall_ends_at_exactly_the_limit(autojump_clock):
    ours, _theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours, stall=15)
    await trio.sleep(100)
    with pytest.raises(StreamStalled, match="took no byte for 15 s"):
        await wire.send_all(b"x")
    assert trio.current_time() == 115
    assert wire.stalled
    with pytest.raises(trio.BrokenResourceError, match="took no byte"):
        await wire.send_all(b"y")


async def test_progress_renews_the_patience(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours, stall=15)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, bytes(5 * PIECE))
        for _ in range(5):
            await trio.sleep(14)
            assert len(await theirs.receive_some(PIECE)) == PIECE
    assert trio.current_time() == 70
    assert wire.torn is None


async def test_waiting_for_a_turn_is_not_a_stall(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    wire = WireStream(ours, stall=15)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, bytes(3 * PIECE))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wire.send_all, b"x")
        for _ in range(4):
            await trio.sleep(14)
            await theirs.receive_some(PIECE)
    assert wire.torn is None


async def test_nothing_follows_a_final_write(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    await wire.send_parts(b"goodbye", final=True)
    with pytest.raises(trio.BrokenResourceError, match="last message"):
        await wire.send_all(b"by the way")
    assert await theirs.receive_some() == b"goodbye"


async def test_a_closed_stream_refuses_as_closed(autojump_clock):
    ours, _theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    await wire.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await wire.send_all(b"x")


async def test_linger_lets_the_peer_finish(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.linger, 1)
        assert await theirs.receive_some() == b""
        await theirs.send_all(b"late")
        await trio.sleep(0.5)
        await theirs.aclose()
    assert trio.current_time() == 0.5


async def test_linger_is_bounded(autojump_clock):
    ours, _theirs = trio.testing.memory_stream_pair()
    wire = WireStream(ours)
    await wire.linger(1)
    assert trio.current_time() == 1
    with pytest.raises(trio.ClosedResourceError):
        await wire.receive_some()


# The same over real sockets, where "progress" is what the kernel takes. Time is virtual still: it moves only when every
# task is blocked, that is, when the kernel takes no more.


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    listener, *_ = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        return await listener.accept(), client


@pytest.fixture
def slow_clock():
    """Virtual time that waits long enough for the kernel to move bytes over the loopback interface."""
    return trio.testing.MockClock(autojump_threshold=0.05)


async def read_rest(stream: trio.SocketStream) -> bytes:
    data = bytearray()
    while piece := await stream.receive_some():
        data += piece
    return bytes(data)


async def test_a_large_packet_over_tcp_arrives_whole():
    ours, theirs = await tcp_pair()
    payload = memoryview(bytes(range(256)) * 12_000)
    picture = payload.cast("B", (1000, 1024, 3))
    async with WireStream(ours) as wire, theirs:
        assert wire.peer == "{}:{}".format(*theirs.socket.getsockname())
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.send_parts, b"head", picture)
            while len(received) < 4 + len(payload):
                received += await theirs.receive_some()
        assert received == b"head" + payload


async def test_a_stall_over_tcp_ends_at_exactly_the_limit(slow_clock):
    ours, theirs = await tcp_pair()
    async with WireStream(ours, stall=15) as wire, theirs:
        with pytest.raises(StreamStalled):
            await wire.send_all(bytes(100_000_000))
        assert trio.current_time() == 15
        assert 0 < len(await read_rest(theirs)) < 100_000_000


async def test_a_write_over_tcp_cancelled_half_way_tears_the_stream(slow_clock):
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire, theirs:
        with trio.move_on_after(1):
            await wire.send_all(bytes(100_000_000))
        with pytest.raises(trio.BrokenResourceError):
            await wire.send_all(b"x")
        assert 0 < len(await read_rest(theirs)) < 100_000_000


async def test_a_reset_over_tcp_is_broken_not_oserror():
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await theirs.aclose()
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await wire.send_all(bytes(PIECE))
        assert wire.torn is not None
        assert not wire.stalled


async def test_what_the_socket_takes_is_written_at_once():
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire, theirs:
        assert wire.send_now(b"head", b"", memoryview(bytes(range(24))).cast("B", (2, 4, 3))) == "sent"
        assert await theirs.receive_some() == b"head" + bytes(range(24))


async def test_the_rest_of_what_was_begun_goes_first():
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire, trio.open_nursery() as nursery:
        large = bytes(range(256)) * 100_000
        assert wire.send_now(b"head", memoryview(large)) == "begun"
        assert wire.send_now(b"too early") == "refused"
        nursery.start_soon(wire.send_parts, b"tail")
        received = b""
        while len(received) < len(large) + 8:
            received += await theirs.receive_some()
        assert received == b"head" + large + b"tail"
        await trio.testing.wait_all_tasks_blocked()
        assert wire.send_now(b"more") == "sent"
        assert await theirs.receive_some() == b"more"
        await theirs.aclose()


async def test_a_rest_that_nobody_takes_is_a_stall(slow_clock):
    ours, theirs = await tcp_pair()
    async with WireStream(ours, stall=15) as wire, theirs:
        assert wire.send_now(bytes(50_000_000)) == "begun"
        began = trio.current_time()
        with pytest.raises(StreamStalled):
            await wire.send_parts()
        assert trio.current_time() - began == pytest.approx(15)
        assert wire.send_now(b"x") == "refused"


async def test_nothing_is_written_at_once_while_another_write_runs(slow_clock):
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, bytes(50_000_000))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(BlockingIOError):
            while socket.socket.recv(theirs.socket._sock, PIECE):  # there is room, and the writer does not know yet
                pass
        assert wire.send_now(b"x") == "refused"
        nursery.cancel_scope.cancel()
    assert wire.send_now(b"x") == "refused", "it is torn"


async def test_nothing_is_written_at_once_where_that_may_wait(autojump_clock):
    ours, _ = trio.testing.memory_stream_pair()
    assert WireStream(ours).send_now(b"x") == "refused"


async def test_a_reset_is_met_by_the_next_write_that_waits():
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await theirs.aclose()
        await wire.wait_send_all_might_not_block()
        assert wire.send_now(b"x") == "refused"
        with pytest.raises(trio.BrokenResourceError):
            await wire.send_parts(b"x")


async def test_a_rest_whose_writing_is_cancelled_tears_the_stream(slow_clock):
    ours, theirs = await tcp_pair()
    async with WireStream(ours) as wire, theirs:
        assert wire.send_now(bytes(50_000_000)) == "begun"
        with trio.move_on_after(1):
            await wire.send_parts()
        with pytest.raises(trio.BrokenResourceError):
            await wire.send_all(b"x")
