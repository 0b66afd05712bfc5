"""The link between two ranks: sending waits for room, and the link belongs to the loop that receives from it."""

from __future__ import annotations

import socket
import threading

import trio

from reactor_trio.crossing.messages import Command
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.ranks.rank_link import RankLink


def said(data):
    return Command(1, 1, "set_x", {}, None, data=data)


class CountedSocket(socket.socket):
    """Counts how often somebody tries to send."""

    tries = 0

    def send(self, *args):
        self.tries += 1
        return super().send(*args)


async def test_a_rank_sends_from_any_thread_and_sleeps_until_the_other_takes_it():
    ours, theirs = socket.socketpair()
    counted = CountedSocket(fileno=ours.detach())
    one, other = RankLink(counted, ipc_messages.FromProcess), RankLink(theirs, ipc_messages.ToProcess)
    heard = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, one.send, said(b"x" * 2_000_000))
        await trio.lowlevel.wait_readable(theirs)
        await trio.sleep(0.02)  # for a thread that spins, long enough to try a thousand times

        def take(message, _session):
            heard.append(len(message.data))
            nursery.cancel_scope.cancel()

        nursery.start_soon(other.receive, take)
    assert heard == [2_000_000]
    assert counted.tries < 500
    one.close()
    other.close()


async def test_closing_a_link_ends_a_send_that_waits_for_room():
    """The other end does not read and is not gone, as that of a process that is stopped."""
    ours, theirs = socket.socketpair()
    one = RankLink(ours, ipc_messages.FromProcess)
    too_late = threading.Timer(5, theirs.close)  # else a test that fails would wait for ever
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, one.send, said(b"x" * 2_000_000))
        await trio.lowlevel.wait_readable(theirs)
        too_late.start()
        one.close()
        too_late.cancel()
    assert theirs.fileno() > 0, "the link was closed only when the other end was gone"
    theirs.close()


def test_a_link_that_is_made_without_a_loop_is_closed_by_the_loop_that_receives():
    """As that of rank 0, which the I/O loop makes and the model loop has."""
    ours, theirs = socket.socketpair()
    one, other = RankLink(ours, ipc_messages.FromProcess), RankLink(theirs, ipc_messages.ToProcess)
    heard = []

    async def hear():
        await other.receive(lambda message, session: heard.append((message.data, session)))
        other.close()

    hears = threading.Thread(target=trio.run, args=(hear,))
    hears.start()
    for session in range(3):
        one.send(said(b"x" * 300_000), session)
    ours.shutdown(socket.SHUT_RDWR)
    hears.join()
    assert heard == [(b"x" * 300_000, session) for session in range(3)]
    one.send(said(b"late"))  # nothing takes it, and nothing waits
    ours.close()
