"""The size of the system's send buffer: over TCP with a chosen round trip, and with a simulated system."""

from __future__ import annotations

import errno
import socket
import struct
import sys

import pytest
import trio
import trio.testing

from reactor_trio.transport.send_buffer import SendBuffer
from reactor_trio.transport.wire_stream import WireStream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a connection carries")

FLOOR = 512 * 1024
SO_BUF_LOCK = 72


def tcp_info(acknowledged: int, round_trip: float) -> bytes:
    """Linux's TCP_INFO of a connection: all acknowledged bytes, and the shortest round trip in seconds."""
    info = bytearray(232)
    struct.pack_into("=Q", info, 120, acknowledged)
    struct.pack_into("=I", info, 148, round(round_trip * 1e6))
    return bytes(info)


async def test_a_raw_720p_stream_at_a_round_trip_of_10_ms_is_not_held_back(mock_clock, monkeypatch):
    per_tick = 830_000  # in 10 ms: 30 pictures of 1280x720 a second
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    reader = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
    ours = await listener.accept()
    read = 0
    getsockopt = type(ours.socket).getsockopt

    def told(tcp, level, option, *size):
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO):
            return tcp_info(read, 0.01)[: size[0]]
        return getsockopt(tcp, level, option, *size)

    monkeypatch.setattr(type(ours.socket), "getsockopt", told)
    wire = WireStream(ours)
    before = getsockopt(ours.socket, socket.SOL_SOCKET, socket.SO_SNDBUF)
    async with listener, reader, wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, bytes(64 * per_tick))
        for tick in range(1, 33):
            while read < tick * per_tick:
                read += len(await reader.receive_some(tick * per_tick - read))
            mock_clock.jump(0.01)
            await trio.testing.wait_all_tasks_blocked()
        size = getsockopt(ours.socket, socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
        chosen_by_system = getsockopt(ours.socket, socket.SOL_SOCKET, SO_BUF_LOCK) == 0
        nursery.cancel_scope.cancel()
    assert before // 2 <= FLOOR
    assert chosen_by_system or 0.9 * 2 * per_tick <= size <= 1.1 * 2 * per_tick


class System:
    """A socket and its system.

    Args:
        most: bytes that the system grants.
        unlocks: whether the system can be told to choose the size.
        tells: whether it tells what a connection carries.
        refuses: whether it refuses to tell or to set anything from now on.
    """

    def __init__(self, most: int = 4 * 2**20, unlocks: bool = True, tells: bool = True, refuses: bool = False) -> None:
        self.most, self.unlocks, self.tells, self.refuses = most, unlocks, tells, refuses
        self.sizes: list[int | None] = []  # None: the system's own choice
        self.acknowledged, self.round_trip, self.looks = 0.0, 0.0, 0

    def setsockopt(self, level, option, value):
        self._may()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF):
            self.sizes.append(min(value, self.most))
        else:
            assert (level, option, value) == (socket.SOL_SOCKET, SO_BUF_LOCK, 0)
            if not self.unlocks:
                raise OSError(errno.ENOPROTOOPT, "Protocol not available")
            self.sizes.append(None)

    def getsockopt(self, level, option, size=0):
        self._may()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF):
            return 2 * self.sizes[-1]
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        self.looks += 1
        return tcp_info(round(self.acknowledged), self.round_trip)[: size if self.tells else 104]

    def _may(self):
        if self.refuses:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")


async def carry(system: System, buffer: SendBuffer, rate: float, seconds: float = 1.0, round_trip: float = 0.01) -> None:
    """`rate` bytes a second are acknowledged, and a write waits for room each 10 ms."""
    system.round_trip = round_trip
    for _ in range(round(seconds / 0.01)):
        await trio.sleep(0.01)
        system.acknowledged += rate * 0.01
        buffer.fit()


async def test_the_buffer_follows_the_rate_up_and_down(autojump_clock):
    system = System()
    buffer = SendBuffer(system)
    await carry(system, buffer, 50e6)
    assert system.sizes == [FLOOR, pytest.approx(1_000_000, rel=0.2)]
    assert system.looks <= 10
    await carry(system, buffer, 83e6)
    assert system.sizes[-1] == pytest.approx(1_660_000, rel=0.01)
    changes = len(system.sizes)
    await carry(system, buffer, 60e6)
    assert len(system.sizes) == changes, "a little less changes nothing"
    await carry(system, buffer, 1e6)
    assert system.sizes[-1] == FLOOR


@pytest.mark.parametrize(("rate", "round_trip"), [(250_000, 0.04), (2_500_000, 0.1), (0, 0.01)])
async def test_a_thin_link_gets_no_larger_buffer(autojump_clock, rate, round_trip):
    system = System()
    await carry(system, SendBuffer(system), rate, 10, round_trip)
    assert system.sizes == [FLOOR]


async def test_the_system_chooses_a_size_that_it_does_not_grant(autojump_clock):
    system = System(most=208 * 1024)
    buffer = SendBuffer(system)
    await carry(system, buffer, 250_000, round_trip=0.04)
    assert system.sizes == [208 * 1024], "a thin link needs no more than what is granted"
    await carry(system, buffer, 21e6)
    await carry(system, buffer, 83e6)
    assert set(system.sizes[1:]) == {None}
    await carry(system, buffer, 1e6)
    assert system.sizes[-1] == 208 * 1024


@pytest.mark.parametrize("old", [{"unlocks": False, "most": 208 * 1024}, {"tells": False}], ids=["5.13", "4.8"])
async def test_an_older_linux_keeps_the_size_that_it_granted(autojump_clock, old):
    system = System(**old)
    await carry(system, SendBuffer(system), 83e6)
    assert system.sizes == [old.get("most", FLOOR)]


async def test_a_system_that_refuses_ends_no_connection(autojump_clock):
    sandbox = System(refuses=True)
    await carry(sandbox, SendBuffer(sandbox), 83e6)
    assert sandbox.sizes == []
    later = System()
    buffer = SendBuffer(later)
    later.refuses = True
    await carry(later, buffer, 83e6)
    assert later.sizes == [FLOOR]


async def test_a_unix_socket_outlives_a_long_write(mock_clock):
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    before = ours.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    async with theirs, WireStream(ours) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, bytes(2**22))
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.0)
        read = 0
        while read < 2**22:
            read += len(await theirs.receive_some(2**20))
        assert ours.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before
