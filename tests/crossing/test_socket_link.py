"""IPC messages over a socket pair: any size, in order, until the other end is gone."""

from __future__ import annotations

import os
import socket

import pytest
import trio
import trio.testing
from tests.support.child_processes import in_a_fork

from reactor_trio.crossing.messages import Command
from reactor_trio.crossing.socket_link import _CHUNK, SocketLink
from reactor_trio.crossing.wire import MARK
from reactor_trio.placement.isolation import ipc_messages


@pytest.fixture
async def ends():
    first, second = socket.socketpair()
    first.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    one, other = SocketLink(first, ipc_messages.FromProcess), SocketLink(second, ipc_messages.ToProcess)
    yield one, other
    one.close()
    other.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_forked_child_has_no_end_of_a_link(ends):
    one, other = ends
    numbers = one._socket.fileno(), other._socket.fileno()
    await trio.lowlevel.checkpoint()
    assert in_a_fork(lambda: " ".join(os.readlink(f"/proc/self/fd/{n}") for n in numbers)) == "/dev/null /dev/null"


def said(data, number=1):
    return Command(number, 1, "set_x", {}, None, data=data)


async def test_messages_of_all_sizes_arrive_whole_and_in_order(ends):
    one, other = ends
    sizes = [0, 1, 4091, 4092, 100_000, 3, 3_000_000, 7]
    heard = []
    async with trio.open_nursery() as nursery:

        def take(message, session):
            heard.append((session, message.number, len(message.data)))
            if len(heard) == len(sizes):
                nursery.cancel_scope.cancel()

        nursery.start_soon(other.receive, take)
        nursery.start_soon(one.run)
        for number, size in enumerate(sizes):
            one.send(said(b"x" * size, number), session=2**32 - 1 - number)
    assert heard == [(2**32 - 1 - number, number, size) for number, size in enumerate(sizes)]


async def test_messages_of_several_threads_arrive_whole_and_in_the_order_of_each(ends):
    one, other = ends
    heard = {1: [], 2: [], 3: []}

    def say(session):
        for number in range(300):
            one.send(said(b"x" * (number * 97 * session % 9000), number), session=session)

    async with trio.open_nursery() as nursery:

        def take(message, session):
            heard[session].append((message.number, len(message.data)))
            if sum(map(len, heard.values())) == 900:
                nursery.cancel_scope.cancel()

        nursery.start_soon(other.receive, take)
        nursery.start_soon(one.run)
        for session in 1, 2:
            nursery.start_soon(trio.to_thread.run_sync, say, session)
        say(3)  # on the link's own loop
    assert heard == {session: [(n, n * 97 * session % 9000) for n in range(300)] for session in heard}
    assert one.unsent == 0


async def test_receiving_that_was_cancelled_in_the_middle_of_a_message_goes_on_with_it(ends):
    one, other = ends
    heard = []
    async with trio.open_nursery() as nursery:
        receiving = trio.CancelScope()

        async def receive():
            with receiving:
                await other.receive(lambda message, _session: heard.append(message.number))

        async def receive_rest(everything):
            await other.receive(lambda message, _session: (heard.append(message.number), everything.cancel()))
            everything.cancel()

        one.send(said(b"x" * 100_000))  # its rest waits for `run`
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        receiving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(one.run)
        nursery.start_soon(receive_rest, nursery.cancel_scope)
    assert heard == [1]


async def test_receiving_ends_with_the_other_end_and_what_is_sent_later_is_discarded(ends):
    one, other = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.receive, lambda _message, _session: None)
        one.close()
    one.send(said(b"too late"))
    other.send(said(b"not received"))


@pytest.mark.parametrize("data", [b"no message", b"\x93\x28\x01\xc1"], ids=["bytes", "a message cut short"])
async def test_what_is_no_message_ends_the_link_and_is_logged_in_one_line(ends, caplog, data):
    """As if the other process were gone: its code may write to a descriptor that is not its own."""
    one, other = ends
    heard = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.receive, lambda _message, _session: nursery.cancel_scope.cancel())
        other.send(ipc_messages.Pong(1))
        one._socket.send(MARK + len(data).to_bytes(4, "little") + bytes(4) + data)
        await one.receive(lambda message, _session: heard.append(message))
    assert heard == [ipc_messages.Pong(1)]
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "the other process of the model has sent what is no message"
    ]


@pytest.mark.parametrize("data", [b"Killed", b"0", b"\n", bytes(16), b"\xffR\xfe"], ids=repr)
async def test_bytes_without_the_head_of_a_message_end_the_link_at_once(autojump_clock, ends, caplog, data):
    """They were taken for a length before, and the server waited until the model's process had missed `step_timeout`."""
    one, other = ends
    other._socket.send(data * (4096 // len(data)))
    other._socket.send(data * (_CHUNK // len(data)))  # the kernel holds more than one read takes
    with trio.fail_after(1):
        await one.receive(lambda _message, _session: None)
        await one.receive(lambda _message, _session: None)  # as when the process ends: for its last lines of the log
    assert [record.getMessage() for record in caplog.records] == [
        "the other process of the model has sent what is no message (it has no head): it counts as lost"
    ]


async def test_the_bytes_that_wait_are_known_until_the_other_end_reads_them(ends):
    one, other = ends
    heard, all_heard = [], trio.Event()

    def take(message, _session):
        heard.append(message.number)
        if len(heard) == 3:
            all_heard.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        for number in range(3):
            one.send(said(b"x" * 100_000, number))
        await trio.testing.wait_all_tasks_blocked()
        assert 200_000 < one.unsent < 310_000
        nursery.start_soon(other.receive, take)
        await all_heard.wait()
        assert one.unsent == 0
        nursery.cancel_scope.cancel()
    assert heard == [0, 1, 2]


async def test_a_link_that_is_closed_drops_what_waits(ends):
    one, _other = ends
    for number in range(3):
        one.send(said(b"x" * 100_000, number))
    assert one.unsent
    one.close()
    assert one.unsent == 0
    one.send(said(b"x"))
    assert one.unsent == 0
