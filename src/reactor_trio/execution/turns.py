"""Turns on the model thread: of several sessions on one model one steps at a time, in the order that `RoundRobin` chooses.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took. A
turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so code that
waits for ever stops no other session. What it computes when it goes on still counts as its share.

A `run()` may emit in several tasks. Each of them takes a turn of its own, since the thread computes for one task at a time.
Only the code of `run()` itself is observed, so the turn of another task lasts until that task waits for the first time.

Who owns what:

    Turns        which sessions ask, and which turns are out
    SharedTurn   the state of one session's turn (`turn_states`), the tasks that wait for it, and the task that has it

No task of its own grants turns. Of the tasks that wait for one, the *chooser* chooses the session that gets the next one:
a task that asks while no turn is out, or one that the end of a turn has woken (`Turns.returned`). A session that has
rested and finds the thread free goes on at once, and from one session to the next the loop makes one round. A session that
steps again at once, and alone asks, lets the loop make two: the first finds the deadlines that passed in its step, and in
the second their sessions have asked (`Turns.may_be_joined`). In virtual time all that is due has asked. For batches a task
grants a turn to each session that asks (`DynamicBatcher`). The only session of a model has the plain `Turn`, which
nothing else wants.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.execution.turn_states import TRANSITIONS, TurnEvent, TurnState
from reactor_trio.pacing import RoundRobin

T = TypeVar("T")

#: Checkpoints in a row at which a turn is kept: `send` has one or two; code that spins on checkpoints must give it back.
CHECKPOINTS = 100


class Turn:
    """How a session gets the model thread. This one is for the only session of a model: nothing else wants the thread."""

    def __init__(self, time: ClockHooks) -> None:
        self._time = time

    @property
    def observer(self) -> Observer | None:
        """Sees where author code waits; None if that changes nothing."""
        return None

    @property
    def of_this_task(self) -> bool:
        """Whether the calling task is that of a `run()` that takes turns, or was started by it."""
        return False

    async def take(self, rested: bool) -> float:
        """Return when this session may apply its commands and step; the seconds for which it waited for other sessions.

        A task that has the turn keeps it, and gets the commands that came meanwhile. Cancelled, it has not taken the turn.

        Args:
            rested: whether the task has rested since its last checkpoint; see `ClockHooks.settle`.
        """
        if self._time.settles:
            await self._time.settle(rested)
        elif not rested:  # not by `settle`, which does the same: a call less for each step
            await trio.lowlevel.checkpoint()
        return 0.0

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)`, which counts as computing: no other session steps meanwhile."""
        return await function(*args)

    async def run(self, code: Awaitable[Any]) -> Any:
        """Await a `run()`, which takes turns in `emit` from now on."""
        return await code

    def give_back(self) -> None:
        """Give the turn back, if the calling task has it: the task computes nothing for a while."""

    def leave(self) -> None:
        """Give the turn back: the session is over, and its tasks that waited for a turn have ended."""


class Turns:
    """The turns of one model's sessions, one at a time. All methods but `open` are for the model loop."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        self.robin = RoundRobin()
        self._numbers = itertools.count()
        #: in the order in which they have asked
        self._asking: dict[int, SharedTurn] = {}
        self._out: set[SharedTurn] = set()
        #: of the tasks that wait, the one that is to choose the next session
        self._chooser: trio.lowlevel.Task | None = None

    def open(self) -> SharedTurn:
        """The turn of a new session. Turns are numbered in the order of these calls."""
        return SharedTurn(self, next(self._numbers))

    # ---- for `SharedTurn` ---------------------------------------------------------------------------------------------

    def claim_choice(self, task: trio.lowlevel.Task) -> bool:
        """Make this task, which waits, the chooser if no turn is out and there is no other; returns whether it is."""
        if self._out or self._chooser not in (None, task):
            return False
        self._chooser = task
        return True

    @property
    def may_be_joined(self) -> bool:
        """Whether one session alone asks, and another one that is open may ask soon."""
        return len(self._asking) == 1 and self.robin.several

    def choose(self) -> None:
        """Grant a turn to the session that is next."""
        self._chooser = None
        if (number := self.robin.next()) is not None:
            self.grant(number)

    def pass_on_choice(self) -> None:
        """Make another task the chooser, if one waits."""
        self._chooser = None
        self.wake_a_chooser()

    def wake_a_chooser(self) -> None:
        """Wake a task that waits and make it the chooser, unless a turn is out or there is a chooser."""
        if self._asking and not self._out and self._chooser is None:
            self._chooser = next(iter(self._asking.values())).wake()

    def ask(self, turn: SharedTurn) -> None:
        """Note that the session wants a turn."""
        self.robin.ask(turn.number)
        self._asking[turn.number] = turn

    def withdraw(self, turn: SharedTurn) -> None:
        """Note that the session wants no turn any more."""
        self.robin.withdraw(turn.number)
        del self._asking[turn.number]

    def returned(self, turn: SharedTurn, seconds: float) -> None:
        """Take the turn back, which has lasted for so long."""
        self.robin.used(turn.number, seconds)
        self._out.remove(turn)
        self.wake_a_chooser()

    def grant(self, number: int) -> None:
        """Grant a turn to the session with this number, which asks."""
        turn = self._asking.pop(number)
        self._out.add(turn)
        turn.enter("granted")


class SharedTurn(Turn):
    """The turn of one of several sessions. One task at a time has it, that in which author code runs."""

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__(turns.time)
        self.number = number
        self.state = TurnState.IDLE
        self.turns = turns
        self._waiting: deque[trio.lowlevel.Task] = deque()
        self._holder: trio.lowlevel.Task | None = None  # while it is HELD or KEPT
        self._owner: trio.lowlevel.Task | None = None  # runs a `run()`
        self._since = 0.0
        self._granted = 0  # turns so far
        self._resumed: float | None = None  # when author code went on without a turn
        self._checkpoints = 0

    def enter(self, event: TurnEvent) -> None:
        """Change the state by an event, and do what follows. Raises RuntimeError if it cannot happen in this state."""
        if event not in (possible := TRANSITIONS[self.state]):
            raise RuntimeError(f"{event!r} cannot happen to a turn that is {self.state.name}")
        self.state, actions = possible[event]
        for action in actions:
            match action:
                case "ask":
                    self.turns.ask(self)
                case "withdraw":
                    self.turns.withdraw(self)
                case "begin":
                    self._begin()
                case "end":
                    self._holder = None
                    self.turns.returned(self, trio.current_time() - self._since)
                case "forget":
                    self.turns.robin.leave(self.number)
        if self.state is TurnState.IDLE and self._waiting:  # for a turn of their own, while another task had this one
            self.enter("wanted")
            self.turns.wake_a_chooser()

    @property
    def observer(self) -> Observer:
        """This object: it sees where author code waits."""
        return self

    @property
    def of_this_task(self) -> bool:
        """Whether the calling task has called `run`, or was started by the one that has."""
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not self._owner and task is not None:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None

    async def take(self, rested: bool) -> float:
        """Wait for a turn, and perhaps choose whose it is; returns for how many seconds."""
        task = trio.lowlevel.current_task()
        if self._holder is task:
            return await super().take(rested)
        began = trio.current_time()
        self._waiting.append(task)
        self.enter("wanted")
        while self._holder is not task:
            if not self.turns.claim_choice(task):
                await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: self._abort(task))
                rested = True
                continue
            try:
                await super().take(rested)
                if not rested and self.turns.may_be_joined:
                    await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self._withdraw(task)
                self.turns.pass_on_choice()
                raise
            self.turns.choose()
        if self._owner is not None and task is not self._owner:
            trio.lowlevel.current_trio_token().run_sync_soon(self._unseen_waits, self._granted)
        return self._since - began

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await the function in a turn, which the calling task keeps, or takes if a test states the cost."""
        task = trio.lowlevel.current_task()
        if (costs := self._time.costs) is not None and costs.charges and self._holder is not task:
            await self.take(False)
        if self._holder is not task:
            return await function(*args)
        self.enter("computes")
        try:
            return await function(*args)
        finally:
            if self._holder is task:  # else the session is over
                self.enter("computed")

    async def run(self, code: Awaitable[Any]) -> Any:
        """Await a `run()`, and see where it waits; then give the turn back for good."""
        self._owner = trio.lowlevel.current_task()
        try:
            return await TracedAwaitable(code, observer=self)
        finally:
            self.leave()

    def give_back(self) -> None:
        """Give the turn back, if the calling task has it."""
        if self._holder is trio.lowlevel.current_task():
            self.enter("rests")

    def leave(self) -> None:
        """Give the turn back, and forget what the session has used. A task that still waits asks as a new session would."""
        self.enter("over")

    # ---- `Observer`: where author code waits --------------------------------------------------------------------------

    def resumes(self) -> None:
        """Measure what author code computes without a turn."""
        self._resumed = None if self._holder is trio.lowlevel.current_task() else trio.current_time()

    def waits(self, *, checkpoint: bool) -> None:
        """Give the turn back at a wait that is more than a checkpoint, or after too many checkpoints."""
        self.ends()
        if self._holder is not trio.lowlevel.current_task():
            return
        self._checkpoints += 1
        if not checkpoint or self._checkpoints > CHECKPOINTS:
            self.enter("rests")

    def ends(self) -> None:
        """Charge what author code has computed without a turn."""
        if self._resumed is not None:
            self.turns.robin.used(self.number, trio.current_time() - self._resumed)
            self._resumed = None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._since = trio.current_time()
        self._granted += 1
        self._checkpoints = 0
        self.ends()  # what it has computed since it was resumed, if it chose itself
        self._holder = self._waiting.popleft()
        if self._holder is not trio.lowlevel.current_task():
            trio.lowlevel.reschedule(self._holder)

    def wake(self) -> trio.lowlevel.Task:
        """Wake the task that has waited for the longest time; returns it."""
        trio.lowlevel.reschedule(self._waiting[0])
        return self._waiting[0]

    def _unseen_waits(self, turn: int) -> None:
        """A task that nothing observes has let others run for the first time in its turn."""
        if self._holder is not None and self._granted == turn:
            self.enter("rests")

    def _abort(self, task: trio.lowlevel.Task) -> trio.lowlevel.Abort:
        self._withdraw(task)
        return trio.lowlevel.Abort.SUCCEEDED

    def _withdraw(self, task: trio.lowlevel.Task) -> None:
        self._waiting.remove(task)
        if not self._waiting:
            self.enter("unwanted")
