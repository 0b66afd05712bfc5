"""Turns: each event in each state, who gets the next turn, and what each await leaves behind when it is cancelled."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.round_robin_turns import RoundRobinTurns
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.execution.turn_states import TRANSITIONS, TurnEvent, TurnState
from reactor_trio.execution.turns import CHECKPOINTS, SharedTurn, Turn

IDLE, ASKING, HELD, KEPT = TurnState

#: event -> the next state from IDLE, ASKING, HELD and KEPT; "-": the event cannot happen in that state
NEXT: dict[TurnEvent, str] = {
    "wanted": "ASKING ASKING HELD KEPT",
    "unwanted": "- IDLE HELD KEPT",
    "granted": "- HELD - -",
    "rests": "- - IDLE KEPT",
    "passes": "- - ASKING KEPT",
    "computes": "- - KEPT -",
    "computed": "- - - HELD",
    "over": "IDLE IDLE IDLE IDLE",
}
PAIRS = [(state, event, after) for event, row in NEXT.items() for state, after in zip(TurnState, row.split(), strict=True)]


class Charged(ClockHooks):
    """A clock by which a step costs time, as in a test with `step_cost`."""

    charges = True

    def __init__(self) -> None:
        self.costs = self

    async def run_loop_resumes(self) -> None:
        raise AssertionError("no test has a run() that emits")

    async def spend(self, step: int) -> float:
        raise AssertionError("no test makes a step")


class Worker:
    """A task of a session, which does what the test asks for, one after the other."""

    def __init__(self, turn: SharedTurn) -> None:
        self.turn = turn
        self.scope = trio.CancelScope()
        self.waited: float | None = None  # what the newest `take` returned
        self._send, self._receive = trio.open_memory_channel[Callable[[], Awaitable[Any]] | None](math.inf)

    async def run(self) -> None:
        with self.scope:
            await self._serve()

    def begin_to_take(self) -> None:
        self._send.send_nowait(self._take)

    async def take(self) -> None:
        self.begin_to_take()
        await wait_all_tasks_blocked()

    async def give_back(self) -> None:
        self._send.send_nowait(self._give_back)
        await wait_all_tasks_blocked()

    async def take_next(self) -> None:
        """Give the turn back and ask for the next one at once."""
        self._send.send_nowait(self._take_next)
        await wait_all_tasks_blocked()

    async def compute(self) -> None:
        """Begin to await what computes; the worker does as before, inside that."""
        self._send.send_nowait(lambda: self.turn.compute(self._serve))
        await wait_all_tasks_blocked()

    async def end_computing(self) -> None:
        self._send.send_nowait(None)
        await wait_all_tasks_blocked()

    async def cancel(self) -> None:
        self.scope.cancel()
        await wait_all_tasks_blocked()

    async def _serve(self) -> None:
        async for act in self._receive:
            if act is None:
                return
            await act()

    async def _take(self) -> None:
        self.waited = None
        self.waited = await self.turn.take(False)

    async def _take_next(self) -> None:
        self.turn.give_back()
        await self._take()

    async def _give_back(self) -> None:
        self.turn.give_back()


class Bench:
    """Turns with the tasks of their sessions."""

    def __init__(self, nursery: trio.Nursery, time: ClockHooks) -> None:
        self.turns = RoundRobinTurns(time)
        self.nursery = nursery
        self._occupant: Worker | None = None

    async def occupy(self) -> None:
        """Have a session of its own take the turn, and keep it until `grant`."""
        self._occupant = self.worker()
        await self._occupant.take()

    async def grant(self) -> None:
        assert self._occupant is not None
        await self._occupant.give_back()

    def worker(self, turn: SharedTurn | None = None) -> Worker:
        """A task of this session, by default of a new one."""
        worker = Worker(turn or self.turns.open())
        self.nursery.start_soon(worker.run)
        return worker

    async def is_free(self) -> bool:
        """Whether another session gets a turn now."""
        other = self.worker()
        await other.take()
        free = other.turn.state is HELD
        await other.cancel()
        other.turn.leave()
        return free


@asynccontextmanager
async def bench(time: ClockHooks | None = None) -> AsyncGenerator[Bench, None]:
    async with trio.open_nursery() as nursery:
        yield Bench(nursery, time or ClockHooks())
        nursery.cancel_scope.cancel()


async def bring_to(state: TurnState, seats: Bench) -> Worker:
    """A task of a session whose turn is in this state. If that is ASKING, `seats.grant` grants it the turn."""
    worker = seats.worker()
    if state is ASKING:
        await seats.occupy()
    if state is not IDLE:
        await worker.take()
    if state is KEPT:
        await worker.compute()
    assert worker.turn.state is state
    return worker


async def happen(event: TurnEvent, seats: Bench, worker: Worker) -> None:
    """Make the event happen, by what tasks of the session do."""
    match event:
        case "wanted":
            if worker.turn.state is IDLE:
                await seats.occupy()
            await seats.worker(worker.turn).take()
        case "unwanted" if worker.turn.state is ASKING:
            await worker.cancel()
        case "unwanted":
            other = seats.worker(worker.turn)
            await other.take()
            await other.cancel()
        case "granted":
            await seats.grant()
        case "rests":
            await worker.give_back()
        case "passes":
            await seats.worker().take()  # another session, which is next
            await seats.worker(worker.turn).take()
            await worker.give_back()
        case "computes":
            await worker.compute()
        case "computed":
            await worker.end_computing()
        case "over":
            worker.turn.leave()


# ---- the table --------------------------------------------------------------------------------------------------------


def test_the_table_names_each_state_and_only_events():
    assert set(TRANSITIONS) == set(TurnState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(get_args(TurnEvent)) == set(NEXT)


@pytest.mark.parametrize(("state", "event", "after"), [pair for pair in PAIRS if pair[2] != "-"])
async def test_events_of_tasks_lead_from_each_state_to_the_next(autojump_clock, state, event, after):
    async with bench() as seats:
        worker = await bring_to(state, seats)
        await happen(event, seats, worker)
        assert worker.turn.state is TurnState[after]
        if state is IDLE or event == "granted":
            return
        if state is not ASKING:
            assert await seats.is_free() is (after == "IDLE")
        assert worker.turn.state is TurnState[after]


@pytest.mark.parametrize(("state", "event", "after"), [pair for pair in PAIRS if pair[2] == "-"])
async def test_an_impossible_event_of_a_state_raises_and_changes_nothing(autojump_clock, state, event, after):
    async with bench() as seats:
        worker = await bring_to(state, seats)
        with pytest.raises(RuntimeError, match=f"'{event}' cannot happen to a turn that is {state.name}"):
            worker.turn.enter(event)
        assert worker.turn.state is state
        if state in (HELD, KEPT):
            assert not await seats.is_free()


async def test_actions_of_another_task_are_not_events(autojump_clock):
    """Only the task that has the turn gives it back, or keeps it."""
    async with bench() as seats:
        worker = await bring_to(HELD, seats)
        other = seats.worker(worker.turn)
        await other.give_back()
        await other.compute()
        assert worker.turn.state is HELD
        worker.turn.waits(checkpoint=False)
        assert worker.turn.state is HELD
        await other.end_computing()
        await worker.give_back()
        assert worker.turn.state is IDLE


async def test_a_session_that_is_over_while_it_computes_is_not_missed(autojump_clock):
    async with bench() as seats:
        worker = await bring_to(KEPT, seats)
        worker.turn.leave()
        await worker.end_computing()
        assert worker.turn.state is IDLE
        assert await seats.is_free()


@pytest.mark.parametrize("holds", [False, True])
async def test_tasks_that_wait_when_their_session_is_over_go_on_without_a_turn(autojump_clock, holds):
    """Tasks of the author's that outlive the session. The turn of another session is not theirs."""
    async with bench() as seats:
        if not holds:
            await seats.occupy()
        first = await bring_to(HELD, seats) if holds else seats.worker()
        waiting = [first, seats.worker(first.turn), seats.worker(first.turn)]
        for worker in waiting[holds:]:
            await worker.take()
        await trio.sleep(3)
        first.turn.leave()
        await wait_all_tasks_blocked()
        assert [worker.waited for worker in waiting] == [0 if holds else 3, 3, 3]
        assert first.turn.state is IDLE
        assert await seats.is_free() is holds
        await first.give_back()  # of no turn
        assert await seats.is_free() is holds


async def test_a_task_that_is_to_choose_when_its_session_is_over_leaves_that_to_another(autojump_clock):
    async with bench(Settling()) as seats:
        holder, over, stays = seats.worker(), seats.worker(), seats.worker()
        for worker in holder, over, stays:
            await worker.take()
            await wait_all_tasks_blocked()
        await trio.sleep(2)
        holder.turn.leave()  # so `over` is woken to choose
        over.turn.leave()
        await trio.sleep(0.1)
        assert (over.waited, over.turn.state) == (2, IDLE)
        assert (stays.waited, stays.turn.state) == (2, HELD)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_task_that_chooses_when_its_session_is_over_leaves_that_to_another(autojump_clock, cancelled):
    """It found the thread free, and lets others ask."""
    async with bench(Settling()) as seats:
        over, stays = seats.worker(), seats.worker()
        await wait_all_tasks_blocked()
        for worker in over, stays:
            worker.begin_to_take()
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert (over.turn.state, stays.turn.state) == (ASKING, ASKING)
        over.turn.leave()
        if cancelled:
            over.scope.cancel()
        await trio.sleep(0.1)
        assert (over.turn.state, stays.turn.state) == (IDLE, HELD)


# ---- who is next ------------------------------------------------------------------------------------------------------


async def test_the_tasks_of_a_session_get_its_turns_in_the_order_in_which_they_asked(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()
        workers = [seats.worker(turn) for _ in range(3)]
        await trio.sleep(5)
        for worker in workers:
            await worker.take()
        for number, worker in enumerate(workers):
            assert [other.waited is not None for other in workers] == [True] * (number + 1) + [False] * (2 - number)
            await trio.sleep(1)
            await worker.give_back()
        assert [worker.waited for worker in workers] == [0, 1, 2]
        assert turn.state is IDLE


async def test_a_task_that_has_the_turn_takes_it_again_at_once(autojump_clock):
    async with bench() as seats:
        worker = await bring_to(HELD, seats)
        other = seats.worker()
        await other.take()
        await worker.take()
        assert worker.waited == 0
        assert other.waited is None


async def test_a_task_of_several_that_wait_is_cancelled_and_the_others_still_wait(autojump_clock):
    async with bench() as seats:
        first = await bring_to(ASKING, seats)
        second = seats.worker(first.turn)
        await second.take()
        await first.cancel()
        assert first.turn.state is ASKING
        await seats.grant()
        assert (first.waited, second.waited) == (None, 0)


async def test_a_session_whose_wait_is_cancelled_is_passed_over(autojump_clock):
    async with bench() as seats:
        holder = await bring_to(HELD, seats)
        leaves, stays = seats.worker(), seats.worker()
        await leaves.take()
        await stays.take()
        await leaves.cancel()
        await trio.sleep(2)
        await holder.give_back()
        assert (leaves.waited, stays.waited) == (None, 2)
        await stays.give_back()
        assert await seats.is_free()


async def order_of(count: int, *workers: Worker) -> list[int]:
    """Which of these workers, which ask for turns, get the next ones. Each keeps its turn for a second and asks again."""
    order = []
    for _ in range(count):
        (number,) = [number for number, worker in enumerate(workers) if worker.turn.state is HELD]
        order.append(number)
        await trio.sleep(1)
        await workers[number].take_next()
    return order


@pytest.mark.parametrize(("over", "order"), [(False, [1, 1, 1, 1]), (True, [1, 0, 0, 1])])
async def test_a_session_that_is_over_leaves_no_debt(autojump_clock, over, order):
    async with bench() as seats:
        worker, other = await bring_to(HELD, seats), seats.worker()
        await other.take()
        assert await order_of(4, worker, other) == [0, 1, 0, 1]
        await trio.sleep(4)
        await worker.give_back()
        if over:
            worker.turn.leave()
        await worker.take()
        assert await order_of(4, worker, other) == order


async def test_the_turn_of_an_only_session_is_always_there(autojump_clock):
    turn = Turn(ClockHooks())
    assert await turn.take(True) == 0
    assert (turn.observer, turn.of_this_task) == (None, False)

    async def seven() -> int:
        return 7

    assert await turn.compute(seven) == await turn.run(seven()) == 7
    turn.give_back()
    turn.leave()


# ---- without a task that grants turns -----------------------------------------------------------------------------------


class Settling(ClockHooks):
    """A clock by which everything that is due at an instant asks before a turn is granted, as in a test of a server."""

    settles = True

    async def settle(self, rested: bool) -> None:
        await wait_all_tasks_blocked()


class Rounds(trio.abc.Instrument):
    """Counts the rounds of the loop."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_a_session_that_finds_the_thread_free_goes_on_at_once(autojump_clock):
    async with bench() as seats:
        turn, other = seats.turns.open(), seats.turns.open()
        with trio.testing.assert_no_checkpoints():
            for each in turn, turn, other, turn:
                assert await each.take(True) == 0
                each.give_back()
        with trio.testing.assert_checkpoints():
            await turn.take(False)


async def test_the_loop_makes_one_round_from_one_session_to_the_next(autojump_clock):
    """Of sessions that always want a turn, so that each is given back while the others wait."""
    taken, rounds = [], Rounds()

    async def step(turn: SharedTurn) -> None:
        for _ in range(100):
            await turn.take(False)
            taken.append(turn.number)
            turn.give_back()

    async with bench() as seats:
        trio.lowlevel.add_instrument(rounds)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(step, seats.turns.open())
        trio.lowlevel.remove_instrument(rounds)
    assert sorted(taken) == sorted([0, 1, 2] * 100)
    assert rounds.count <= 310


async def test_a_session_that_came_due_in_a_step_goes_before_the_one_that_steps_again_at_once(autojump_clock):
    """By the hooks of real time. The loop sees the deadline after the step, in the round in which that one asks again."""
    order = []

    async def steps(turn: SharedTurn) -> None:
        for _ in range(30):
            await turn.take(False)
            order.append("always")
            autojump_clock.jump(2)  # it computes, so the loop does not run
            turn.give_back()

    async def comes(turn: SharedTurn) -> None:
        for _ in range(30):
            await trio.sleep(1)
            await turn.take(True)
            order.append("at its time")
            turn.give_back()

    async with bench() as seats:
        always, at_its_time = seats.turns.open(), seats.turns.open()
        for turn in always, at_its_time:
            await turn.take(True)
            turn.give_back()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(steps, always)
            nursery.start_soon(comes, at_its_time)
    assert order == ["always", "at its time"] * 30


async def test_a_second_session_that_comes_in_a_step_waits_for_its_end_and_then_leaves(autojump_clock):
    async with bench() as seats:
        only = await bring_to(HELD, seats)
        await trio.sleep(1)
        second = seats.worker()
        await second.take()
        assert second.turn.state is ASKING
        await trio.sleep(2)
        await only.take_next()  # it has used more, so the second one goes first
        assert (second.waited, only.turn.state) == (2, ASKING)
        await trio.sleep(4)
        second.turn.leave()
        await wait_all_tasks_blocked()
        assert (only.waited, only.turn.state) == (4, HELD)
        await only.take_next()
        assert only.waited == 0


@pytest.mark.parametrize("number", [0, 1])
async def test_sessions_that_ask_at_one_instant_go_in_their_order_whichever_runs_first(autojump_clock, number):
    """In virtual time. The session that asks first lets the others ask before it chooses."""
    async with bench(Settling()) as seats:
        turns = [seats.turns.open() for _ in range(3)]
        order = []

        async def step(turn: SharedTurn) -> None:
            await turn.take(True)
            order.append(turn.number)
            await trio.sleep(1)
            turn.give_back()

        async with trio.open_nursery() as nursery:
            for turn in turns[number:] + turns[:number]:
                nursery.start_soon(step, turn)
        assert order == [0, 1, 2]


@pytest.mark.parametrize("tasks", [1, 2])
async def test_a_task_that_is_cancelled_before_it_has_chosen_leaves_that_to_another(autojump_clock, tasks):
    async with bench(Settling()) as seats:
        turn, other = seats.turns.open(), seats.turns.open()
        scopes = [trio.CancelScope() for _ in range(tasks)]
        took = []

        async def choose(scope: trio.CancelScope) -> None:
            with scope:
                await turn.take(True)
                took.append("cancelled")

        async def wait() -> None:
            await other.take(True)
            took.append("other")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(choose, scopes[0])
            await trio.lowlevel.checkpoint()
            nursery.start_soon(wait)
            for scope in scopes[1:]:
                nursery.start_soon(choose, scope)
            await trio.lowlevel.checkpoint()
            for scope in scopes:
                scope.cancel()
        assert took == ["other"]
        assert (turn.state, other.state) == (IDLE, HELD)


@pytest.mark.parametrize("over", [False, True])
async def test_a_task_that_is_woken_to_choose_and_cancelled_at_once_leaves_that_to_another(autojump_clock, over):
    async with bench(Settling()) as seats:
        holder, leaves, stays = seats.worker(), seats.worker(), seats.worker()
        for worker in holder, leaves, stays:
            await worker.take()
            await wait_all_tasks_blocked()
        await trio.sleep(2)
        holder.turn.leave()
        leaves.scope.cancel()
        if over:
            leaves.turn.leave()
        await trio.sleep(0.1)
        assert (leaves.waited, leaves.turn.state) == (2 if over else None, IDLE)
        assert (stays.waited, stays.turn.state) == (2, HELD)


async def test_a_second_task_of_a_session_waits_on_when_the_first_gives_its_turn_back(autojump_clock):
    """No other session is there that would wake it."""
    async with bench() as seats:
        first = await bring_to(HELD, seats)
        second = seats.worker(first.turn)
        await second.take()
        await trio.sleep(3)
        await first.give_back()
        assert (second.waited, second.turn.state) == (3, HELD)


async def test_what_a_task_computes_in_a_turn_that_it_chose_itself_counts_once(autojump_clock: MockClock):
    """Its code was resumed without a turn, and got it before it let others run again."""
    async with bench() as seats:
        one, other = seats.worker(), seats.worker()
        for worker in (one, other):  # the first step is free, the second is the usual one
            await worker.take()
            await trio.sleep(1)
            await worker.take_next()
            await trio.sleep(1)
            await worker.give_back()

        async def code() -> None:
            await one.turn.take(False)
            autojump_clock.jump(1)
            await trio.lowlevel.checkpoint()
            one.turn.give_back()

        await TracedAwaitable(code(), observer=one.turn)
        holder = await bring_to(HELD, seats)
        await one.take()
        await other.take()
        await holder.give_back()
        assert await order_of(5, one, other) == [0, 1, 0, 1, 0]


# ---- where author code waits --------------------------------------------------------------------------------------------


async def test_a_turn_lasts_a_hundred_checkpoints_and_no_wait(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()
        states = []

        async def code() -> None:
            for _ in range(CHECKPOINTS):
                await trio.lowlevel.checkpoint()
            states.append(turn.state)
            await trio.lowlevel.checkpoint()
            states.append(turn.state)

        async def waits() -> None:
            await trio.sleep(0.001)
            states.append(turn.state)

        for function in (code, code, waits):
            await turn.take(False)
            await TracedAwaitable(function(), observer=turn)
            turn.give_back()
        assert states == [HELD, IDLE, HELD, IDLE, IDLE]


async def test_a_turn_is_kept_while_its_task_awaits_a_computation(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()
        states = []

        async def device() -> str:
            await trio.sleep(1)
            states.append(turn.state)
            return "computed"

        async def code() -> None:
            assert await turn.compute(device) == "computed"
            states.append(turn.state)
            with trio.move_on_after(0.5):
                await turn.compute(device)
            states.append(turn.state)

        await turn.take(False)
        await TracedAwaitable(code(), observer=turn)
        assert states == [KEPT, HELD, HELD]


@pytest.mark.parametrize("charges", [False, True])
async def test_a_computation_without_a_turn_takes_one_if_its_time_is_charged(autojump_clock, charges):
    async with bench(Charged() if charges else ClockHooks()) as seats:
        holder = await bring_to(HELD, seats)
        other = seats.worker()
        await other.compute()
        assert other.turn.state is (ASKING if charges else IDLE)
        await holder.give_back()
        assert other.turn.state is (KEPT if charges else IDLE)
        await other.end_computing()
        assert other.turn.state is (HELD if charges else IDLE)


async def test_time_computed_without_a_turn_counts_as_the_sessions_share(autojump_clock: MockClock):
    """It waited in its step, so its turn was over; then it computed for three seconds, twice."""
    async with bench() as seats:
        one, other = seats.worker(), seats.worker()
        for worker in (one, other):  # the first step is free, the second is the usual one
            await worker.take()
            await trio.sleep(1)
            await worker.take_next()
            await trio.sleep(1)
            await worker.give_back()

        async def code() -> None:
            autojump_clock.jump(3)
            await wait_all_tasks_blocked()
            autojump_clock.jump(3)

        await TracedAwaitable(code(), observer=one.turn)
        holder = await bring_to(IDLE, seats)
        await holder.take()
        await one.take()
        await other.take()
        await holder.give_back()
        assert await order_of(5, one, other) == [1, 1, 1, 0, 1]


# ---- `run()` ------------------------------------------------------------------------------------------------------------


async def test_tasks_of_a_run_are_known_and_no_others(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()
        known = [turn.of_this_task]

        async def child() -> None:
            known.append(turn.of_this_task)

        async def code() -> None:
            known.append(turn.of_this_task)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)

        await turn.run(code())
        assert known == [False, True, True]


async def test_the_turn_of_another_task_of_a_run_lasts_until_it_waits(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()
        states = []

        async def child() -> None:
            await turn.take(False)
            states.append(turn.state)
            await trio.sleep(1)
            states.append(turn.state)
            await turn.take(False)
            await turn.compute(trio.sleep, 1)
            states.append(turn.state)
            turn.give_back()
            await turn.take(False)  # again, before it was seen to wait in the turn before
            states.append(turn.state)

        async def code() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)

        await turn.run(code())
        assert states == [HELD, IDLE, HELD, HELD]


async def test_a_run_that_ends_in_its_turn_leaves_it_to_the_others(autojump_clock):
    async with bench() as seats:
        turn = seats.turns.open()

        async def code() -> None:
            await turn.take(False)

        await turn.run(code())
        assert turn.state is IDLE
        assert await seats.is_free()
