"""Whom a newcomer replaces (`runtime.takeover`), in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from tests.support.black import Black

from reactor_trio import issue_ticket
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.testing import open_server

KEY = "k" * 32


def ticket_of(token):
    """For the subject before the dash."""
    return issue_ticket(KEY, subject=token.partition("-")[0] or None)


class People:
    """Clients that come, wait and stay until they must go; what became of each, with the time."""

    def __init__(self, server, nursery):
        self.server = server
        self.nursery = nursery
        self.heard: list[tuple] = []

    async def come(self, token):
        """One of the subject before the dash. Returns when nothing more happens at this instant."""
        self.nursery.start_soon(self._stay, token)
        await self.server.settle()

    async def _stay(self, token):
        def queued(position, total):
            self.note(token, position, total)

        try:
            async with self.server.connect(token=ticket_of(token), on_queued=queued) as client:
                self.note(token, "plays")
                await client.take(1 << 19)
        except SessionEnded as ended:
            self.note(token, ended.reason)
        except ConnectionRefused as refused:
            self.note(token, refused.status)

    def share_token(self):
        """With it the newest session may be watched."""
        return self.server.runtime.session_manager.running[-1].share_token

    def note(self, *what):
        self.heard.append((*what, trio.current_time()))

    def taken(self):
        heard, self.heard = self.heard, []
        return heard


@asynccontextmanager
async def people(takeover, step_cost=0.25, **settings):
    auth = {"ticket_keys": [KEY]}
    async with open_server(Black, step_cost=step_cost, takeover=takeover, auth=auth, **settings) as server:
        async with trio.open_nursery() as nursery:
            yield People(server, nursery)
            nursery.cancel_scope.cancel()


async def test_never_a_newcomer_waits(autojump_clock):
    async with people("never") as one:
        await one.come("ann-1")
        await one.come("ann-2")
        await trio.sleep(60)
        assert one.taken() == [("ann-1", "plays", 0), ("ann-2", 1, 1, 0)]


async def test_anyone_ends_the_session_that_runs(autojump_clock):
    async with people("anyone", queue=0) as one:
        await one.come("ann-1")
        async with one.server.connect(role="viewer", token=one.share_token()) as viewer:
            await trio.sleep_until(10)
            await one.come("-")
            assert set(one.taken()) == {
                ("ann-1", "plays", 0), ("-", 1, 1, 10), ("ann-1", "taken_over", 10), ("-", "plays", 10),
            }  # fmt: skip
            with pytest.raises(SessionEnded) as over:
                await viewer.take(1 << 19)
            assert over.value.reason == "taken_over"
        assert [session.reason for session in one.server.sessions] == ["taken_over", None]


async def test_one_of_the_same_subject_comes_before_those_who_wait(autojump_clock):
    async with people("same_subject", step_cost=2, queue=2) as one:
        await one.come("ann-1")
        await one.come("bob-1")
        await one.come("cy-1")
        one.taken()
        await trio.sleep_until(0.5)
        await one.come("ann-2")  # the queue is full, and she needs no place in it
        await trio.sleep_until(3)
        assert set(one.taken()) == {
            ("bob-1", 2, 3, 0.5), ("cy-1", 3, 3, 0.5), ("ann-2", 1, 3, 0.5),
            ("ann-1", "taken_over", 1.5), ("bob-1", 1, 2, 2), ("cy-1", 2, 2, 2), ("ann-2", "plays", 2),
        }  # fmt: skip
        await trio.sleep_until(10)
        assert one.taken() == []


async def test_another_subject_or_none_waits(autojump_clock):
    async with people("same_subject") as one:
        for token in ("-1", "-2", "bob-1"):
            await one.come(token)
        await trio.sleep(60)
        assert [heard for heard in one.taken() if heard[1] in ("plays", "taken_over")] == [("-1", "plays", 0)]


async def test_who_reloads_in_the_queue_keeps_the_place(autojump_clock):
    async with people("same_subject") as one:
        for token in ("ann-1", "bob-1", "cy-1"):
            await one.come(token)
        one.taken()
        await trio.sleep(1)
        await one.come("bob-2")
        assert set(one.taken()) == {("bob-2", 1, 2, 1), ("bob-1", "taken_over", 1)}


async def test_of_two_takeovers_at_once_the_later_one_plays(autojump_clock):
    """Also when the step of the old session outlives both."""
    for policy in ("anyone", "same_subject"):
        async with people(policy, step_cost=5, queue=0) as one:
            began = trio.current_time()
            await one.come("ann-1")
            await trio.sleep(1)
            for token in ("ann-2", "ann-3", "ann-4"):
                await one.come(token)
            await trio.sleep_until(began + 20)
            heard = [(*what, at - began) for *what, at in one.taken()]
            assert [entry for entry in heard if entry[1] != 1] == [
                ("ann-1", "plays", 0), ("ann-2", "taken_over", 1), ("ann-3", "taken_over", 1), ("ann-1", "taken_over", 2),
                ("ann-4", "plays", 5),
            ]  # fmt: skip
            assert len(one.server.sessions) == 2


async def test_the_next_of_the_same_subject_is_not_behind_others_although_one_before_gave_up(autojump_clock):
    async with people("same_subject", step_cost=5) as one:
        await one.come("ann-1")
        await one.come("bob-1")
        await trio.sleep(1)
        with trio.move_on_after(0.5):
            async with one.server.connect(token=ticket_of("ann-2")):
                raise AssertionError("the step goes on")
        await one.server.settle()  # she has left the queue
        await one.come("ann-3")
        one.taken()
        await trio.sleep_until(6)
        assert ("ann-3", "plays", 5) in one.taken()


async def test_a_session_that_its_client_left_belongs_to_who_waits(autojump_clock):
    async with people("same_subject", step_cost=5) as one:
        with trio.move_on_after(1):
            async with one.server.connect(token=ticket_of("ann-1")):
                await one.come("bob-1")
                await trio.sleep_forever()
        await one.come("ann-2")
        await trio.sleep_until(6)
        assert [heard for heard in one.taken() if heard[1] == "plays"] == [("bob-1", "plays", 5)]


async def test_a_server_that_goes_down_is_not_taken_over(autojump_clock):
    async with people("anyone", drain_notice=60) as one:
        await one.come("ann-1")
        one.nursery.start_soon(one.server.drain)
        await trio.sleep(1)
        await one.come("bob-1")
        await trio.sleep_until(70)
        assert one.taken() == [("ann-1", "plays", 0), ("bob-1", 503, 1), ("ann-1", "draining", 60)]


async def test_a_free_slot_is_nobodys(autojump_clock):
    async with people("anyone") as one:
        async with one.server.connect(token=ticket_of("ann-1")):
            pass
        await trio.sleep(1)
        await one.come("bob-1")
        assert one.taken() == [("bob-1", "plays", 1)]
        assert one.server.sessions[0].reason == "client_left"
