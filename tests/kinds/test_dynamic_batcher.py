"""Batches: who is in the next one, and what is left of it when members are cancelled before and while it runs."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from reactor_trio.concurrency import ClockHooks, SessionOver
from reactor_trio.errors import BufferClosed, OutputError
from reactor_trio.execution.session_binding import SEEN_SESSION
from reactor_trio.execution.turn_states import TurnState
from reactor_trio.execution.turns import SharedTurn
from reactor_trio.interface.model import Model
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher, call_batch


class Costs(ClockHooks):
    """Keeps the numbers of the batches whose cost was asked for."""

    charges = False

    def __init__(self) -> None:
        self.spent: list[int] = []
        self.costs = self

    async def run_loop_resumes(self) -> None:
        raise AssertionError("a batch has no run()")

    async def spend(self, step: int) -> float | None:
        self.spent.append(step)
        return None


class Together:
    """Its batches take two seconds each. `batches` has the sessions of each, and "cancelled"."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        #: the session that the code of each batch has seen as it begins
        self.seen: list[Any] = []
        self.raises: BaseException | None = None
        self.raises_in_cleanup: BaseException | None = None

    async def batch_inference(self, sessions: list[Any]) -> list[Any]:
        self.batches.append(sessions)
        self.seen.append(SEEN_SESSION.get())
        SEEN_SESSION.set(sessions[0])
        try:
            await trio.sleep(2)
        except trio.Cancelled:
            self.batches.append("cancelled")
            if self.raises_in_cleanup is not None:
                raise self.raises_in_cleanup from None
            raise
        if self.raises is not None:
            raise self.raises
        return [f"of {session}" for session in sessions]


class Member:
    """A session that is stepped once."""

    def __init__(self, server: Server, name: str, turn: SharedTurn, handles: float) -> None:
        self.name, self.turn = name, turn
        self.over = False
        self.result: Any = None
        self.ended_at: float | None = None
        self.scope = trio.CancelScope()
        self._server, self._handles = server, handles

    async def run(self) -> None:
        with self.scope:
            await self.turn.take(False)
            await trio.sleep(self._handles)
            try:
                model, over = cast(Model, self.name), lambda: self.over
                made = await self._server.batcher.join(self.turn, model, over)
                self.result = made.output, made.began
            except (ValueError, SystemExit, SessionOver, BufferClosed) as error:
                self.result = error
            finally:
                self.ended_at = trio.current_time()

    async def leave(self) -> None:
        self.over = True
        self.scope.cancel()
        await wait_all_tasks_blocked()


class Server:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.time, self.model = Costs(), Together()
        self.turns = self.batcher = DynamicBatcher(self.time, cast(Model, self.model))
        self._nursery = nursery

    def session(self, name: str, turn: SharedTurn | None = None, handles: float = 0.0) -> Member:
        """A session with a handler that takes so many seconds, in its turn."""
        member = Member(self, name, turn or self.turns.open(), handles)
        self._nursery.start_soon(member.run)
        return member

    async def begin(self, scope: trio.CancelScope | None = None) -> None:
        """Step batches, when the sessions have asked."""
        await wait_all_tasks_blocked()

        async def run() -> None:
            with scope or trio.CancelScope():
                await self.batcher.run()

        self._nursery.start_soon(run)


@asynccontextmanager
async def server() -> AsyncGenerator[Server, None]:
    async with trio.open_nursery() as nursery:
        yield Server(nursery)
        nursery.cancel_scope.cancel()


async def test_a_batch_has_all_who_asked_in_the_order_of_their_sessions(autojump_clock):
    async with server() as it:
        turns = [it.turns.open() for _ in range(3)]
        third, first, second = (it.session(name, turns[number]) for name, number in (("c", 2), ("a", 0), ("b", 1)))
        await wait_all_tasks_blocked()
        await it.begin()
        await trio.sleep(1)
        late = it.session("d")
        await trio.sleep(5)
        assert it.model.batches == [["a", "b", "c"], ["d"]]
        assert [one.result for one in (first, second, third)] == [("of a", 0), ("of b", 0), ("of c", 0)]
        assert late.result == ("of d", 2)
        assert it.time.spent == [0, 1]
        assert it.model.seen == [None, None]


async def test_a_batch_begins_when_the_last_of_its_members_has_joined(autojump_clock):
    async with server() as it:
        quick, slow = it.session("quick"), it.session("slow", handles=3)
        await it.begin()
        await trio.sleep(10)
        assert it.model.batches == [["quick", "slow"]]
        assert (quick.result, slow.result) == (("of quick", 3), ("of slow", 3))
        assert {quick.turn.state, slow.turn.state} == {TurnState.IDLE}


async def test_who_gives_its_turn_back_without_joining_is_not_in_the_batch(autojump_clock):
    async with server() as it:
        waits, joins = it.session("waits", handles=3), it.session("joins")
        await it.begin()
        await wait_all_tasks_blocked()
        waits.turn.enter("rests")
        await trio.sleep(1)
        assert it.model.batches == [["joins"]]
        await waits.leave()
        assert joins.result is None


async def test_who_leaves_before_the_batch_is_not_in_it(autojump_clock):
    async with server() as it:
        leaves, stays, slow = it.session("leaves"), it.session("stays"), it.session("slow", handles=3)
        await it.begin()
        await trio.sleep(1)
        await leaves.leave()
        assert leaves.ended_at == 1
        await trio.sleep(10)
        assert it.model.batches == [["stays", "slow"]]
        assert (stays.result, slow.result) == (("of stays", 3), ("of slow", 3))


async def test_when_all_have_left_before_it_there_is_no_batch(autojump_clock):
    async with server() as it:
        leaves, fails = it.session("leaves"), it.session("fails", handles=3)
        await it.begin()
        await trio.sleep(1)
        await leaves.leave()
        fails.turn.enter("rests")
        await trio.sleep(1)
        assert it.model.batches == []
        await fails.leave()
        late = it.session("late")
        await trio.sleep(5)
        assert late.result == ("of late", 2)


async def test_who_leaves_while_the_batch_runs_waits_for_its_end(autojump_clock):
    async with server() as it:
        leaves, stays = it.session("leaves"), it.session("stays")
        await it.begin()
        await trio.sleep(1)
        await leaves.leave()
        assert leaves.ended_at is None
        await trio.sleep(5)
        assert (leaves.ended_at, leaves.result, stays.result) == (2, None, ("of stays", 0))
        assert leaves.scope.cancelled_caught
        assert it.model.batches == [["leaves", "stays"]]


async def test_a_batch_is_cancelled_when_its_last_member_has_left(autojump_clock):
    async with server() as it:
        members = [it.session(name) for name in "abc"]
        await it.begin()
        await trio.sleep(0.5)
        for member in members:
            assert "cancelled" not in it.model.batches
            await member.leave()
        assert it.model.batches == [["a", "b", "c"], "cancelled"]
        assert [member.ended_at for member in members] == [0.5] * 3
        again = it.session("again")
        await trio.sleep(3)
        assert again.result == ("of again", 0.5)
        assert it.time.spent == [1]


@pytest.mark.parametrize("error", [ValueError("in the cleanup"), SystemExit(3)])
async def test_what_a_batch_without_members_raises_is_raised_where_the_last_has_left(autojump_clock, error):
    async with server() as it:
        members = [it.session(name) for name in "abc"]
        it.model.raises_in_cleanup = error
        await it.begin()
        await trio.sleep(0.5)
        for member in (members[0], members[2], members[1]):
            await member.leave()
        assert [type(member.result) for member in members] == [type(None), type(error), type(None)]
        again = it.session("again")
        await trio.sleep(3)
        assert again.result == ("of again", 0.5)


@pytest.mark.parametrize("error", [SessionOver(), BufferClosed("the session is over")])
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_batch_that_ends_because_a_session_is_over_ends_no_other(autojump_clock, error, leaves):
    async with server() as it:
        one, other = it.session("one"), it.session("other")
        it.model.raises = error
        await it.begin()
        await trio.sleep(1)
        if leaves:
            await one.leave()
        await trio.sleep(2)
        if leaves:
            assert (one.result, other.result) == (None, (None, 0))
        else:
            assert {type(one.result), type(other.result)} == {type(error)}
            assert one.result is not other.result


async def test_who_has_left_does_not_see_how_the_batch_failed(autojump_clock):
    async with server() as it:
        leaves, stays = it.session("leaves"), it.session("stays")
        it.model.raises = ValueError("the batch fails")
        await it.begin()
        await trio.sleep(1)
        await leaves.leave()
        await trio.sleep(2)
        assert (leaves.result, str(stays.result)) == (None, "the batch fails")


async def test_the_members_of_a_batch_go_on_when_batches_end(autojump_clock):
    async with server() as it:
        member, scope = it.session("member"), trio.CancelScope()
        await it.begin(scope)
        await trio.sleep(1)
        scope.cancel()
        await wait_all_tasks_blocked()
        assert it.model.batches == [["member"], "cancelled"]
        assert member.result == (None, 0)


@pytest.mark.parametrize("leaves", [False, True])
async def test_nothing_of_a_batch_is_left_while_no_session_steps(autojump_clock, leaves):
    """The first batch of its model, without a collection: what it keeps, no batch before it has kept."""

    class Made:
        pass

    left: list[weakref.ref[Made]] = []

    class Makes(Together):
        async def batch_inference(self, sessions: list[Any]) -> list[Any]:
            await trio.sleep(2)
            made = [Made() for _ in sessions]
            left.extend(weakref.ref(one) for one in made)
            return made

    async with server() as it:
        it.turns = it.batcher = DynamicBatcher(it.time, cast(Model, Makes()))
        model = Made()
        left.append(weakref.ref(model))
        sessions = [it.session(cast(str, model)), it.session("other")]
        left.extend(weakref.ref(one.turn) for one in sessions)
        await it.begin()
        await trio.sleep(1)
        if leaves:
            await sessions[0].leave()
        await trio.sleep(2)
        assert len(left) == 5
        del sessions, model
        assert [one() for one in left] == [None] * 5


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (["one"], "expected 2 outputs, one for each session in their order, got 1"),
        ("ab", "expected a list with one output for each session, got str"),
    ],
)
async def test_a_wrong_result_is_named_with_the_line_of_the_method(result, says):
    class Wrong:
        def batch_inference(self, sessions: list[Any]) -> Any:
            return result

    with pytest.raises(OutputError) as caught:
        await call_batch(cast(Model, Wrong()), cast(list[Model], ["a", "b"]))
    assert f"Wrong.batch_inference: {says}" in str(caught.value)
    assert "test_dynamic_batcher.py:" in str(caught.value)


async def test_a_session_that_asked_while_a_batch_ran_is_stepped_with_the_members_of_that_batch(autojump_clock):
    """By the hooks of real time. The members ask again one round after the end of their batch."""
    batches = []

    class Notes:
        async def batch_inference(self, sessions):
            batches.append(sorted(sessions))
            await trio.sleep(2)
            return sessions

    async def steps(batcher: DynamicBatcher, name: str, after: float) -> None:
        turn, model = batcher.open(), cast(Model, name)
        await trio.sleep(after)
        for _ in range(4):
            await turn.take(False)
            await batcher.join(turn, model, lambda: False)

    batcher = DynamicBatcher(ClockHooks(), cast(Model, Notes()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(batcher.run)
        async with trio.open_nursery() as sessions:
            sessions.start_soon(steps, batcher, "a", 0)
            sessions.start_soon(steps, batcher, "b", 1)
        nursery.cancel_scope.cancel()
    assert batches == [["a"], *[["a", "b"]] * 3, ["b"]]
