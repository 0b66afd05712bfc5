"""Turns on the model thread, which several sessions on one model share.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took. A
turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so code that
waits for ever stops no other session. What it computes when it goes on still counts as its share.

A `run()` may emit in several tasks. Each of them takes a turn of its own, since the thread computes for one task at a time.
Only the code of `run()` itself is observed, so the turn of another task lasts until that task waits for the first time.

Who owns what:

    Turns        which sessions ask, and which turns are out
    SharedTurn   the state of one session's turn (`turn_states`), the tasks that wait for it, and the task that has it

Of sessions that step alone one has a turn at a time (`RoundRobinTurns`). Of sessions that step together all that ask get
theirs (`DynamicBatcher`). The only session of a model has the plain `Turn`, which nothing else wants.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.execution.turn_states import TRANSITIONS, TurnEvent, TurnState

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
        """Give the turn back: the session is over."""


class Turns(ABC):
    """Which of one model's sessions ask for a turn, and which turns are out; a subclass says who gets the next ones.

    All methods but `open` are for the model loop.
    """

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        self._numbers = itertools.count()
        #: by their numbers, in the order in which they have asked
        self._asking: dict[int, SharedTurn] = {}
        self._out: set[SharedTurn] = set()

    def open(self) -> SharedTurn:
        """The turn of a new session. Turns are numbered in the order of these calls."""
        return SharedTurn(self, next(self._numbers))

    @abstractmethod
    async def until_granted(self, turn: SharedTurn, task: trio.lowlevel.Task, rested: bool) -> None:
        """Return when this task, which waits for the turn, has it, or when the session is over. Cancelled, it waits no more.

        Args:
            rested: see `Turn.take`.
        """

    @abstractmethod
    def grant_next(self) -> None:
        """Have the next turns granted to sessions that ask, if none is out."""

    def ask(self, turn: SharedTurn) -> None:
        """Note that the session wants a turn."""
        self._asking[turn.number] = turn

    def withdraw(self, turn: SharedTurn) -> None:
        """Note that the session wants no turn any more."""
        del self._asking[turn.number]

    def grant(self, number: int) -> None:
        """Grant a turn to the session with this number, which asks."""
        turn = self._asking.pop(number)
        self._out.add(turn)
        turn.enter("granted")

    def returned(self, turn: SharedTurn, seconds: float) -> None:
        """Take the turn back, which has lasted for so long."""
        self._out.remove(turn)

    def charge(self, turn: SharedTurn, seconds: float) -> None:  # noqa: B027 - sessions that step together owe nothing
        """Note that the session has used the thread for so long without a turn."""

    def forget(self, turn: SharedTurn) -> None:  # noqa: B027
        """Forget what the session has used."""


class SharedTurn(Turn):
    """The turn of one of several sessions. One task at a time has it, that in which author code runs.

    Attributes:
        number: its place among the turns of the model's sessions.
        waiting: the tasks that wait for it, the first one first.
    """

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__(turns.time)
        self.number = number
        self.state = TurnState.IDLE
        self.turns = turns
        self.waiting: deque[trio.lowlevel.Task] = deque()
        self._asleep: set[trio.lowlevel.Task] = set()  # of these, those that are to be woken
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
                case "next":
                    self.turns.grant_next()
                case "forget":
                    self.turns.forget(self)
                case "release":
                    self._release()

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
        """Wait for a turn; returns for how many seconds. If the session is over meanwhile the task goes on without one."""
        task = trio.lowlevel.current_task()
        if self._holder is task:
            return await super().take(rested)
        began = trio.current_time()
        self.waiting.append(task)
        self.enter("wanted")
        await self.turns.until_granted(self, task, rested)
        if self._holder is not task:
            return trio.current_time() - began
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
            self.enter("passes" if self.waiting else "rests")

    def leave(self) -> None:
        """Give the turn back, and forget what the session has used. A task that still waits goes on without a turn.

        Only a task that the author's code has started outside of the session can still wait. Nothing that it computes is
        shown, so it is no session's step, and no session waits for it.
        """
        self.enter("over")

    # ---- for `Turns` --------------------------------------------------------------------------------------------------

    def sleep(self, task: trio.lowlevel.Task) -> Awaitable[None]:
        """Have this task, which waits, sleep until it has the turn, or `wake` wakes it, or the session is over."""
        self._asleep.add(task)
        return trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: self._abort(task))  # noqa: ASYNC105 - the caller awaits

    def wake(self) -> trio.lowlevel.Task:
        """Wake the task that has waited for the longest time; returns it."""
        task = self.waiting[0]
        self._asleep.remove(task)
        trio.lowlevel.reschedule(task)
        return task

    def withdraw(self, task: trio.lowlevel.Task) -> None:
        """Note that this task waits no more."""
        if task in self.waiting:  # else the session is over
            self.waiting.remove(task)
            if not self.waiting:
                self.enter("unwanted")

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
            self.enter("passes" if self.waiting else "rests")

    def ends(self) -> None:
        """Charge what author code has computed without a turn."""
        if self._resumed is not None:
            self.turns.charge(self, trio.current_time() - self._resumed)
            self._resumed = None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._since = trio.current_time()
        self._granted += 1
        self._checkpoints = 0
        self.ends()  # what it has computed since it was resumed, if it chose itself
        self._holder = self.waiting.popleft()
        if self._holder in self._asleep:  # else it has chosen itself
            self._asleep.remove(self._holder)
            trio.lowlevel.reschedule(self._holder)

    def _release(self) -> None:
        self.waiting.clear()
        while self._asleep:
            trio.lowlevel.reschedule(self._asleep.pop())

    def _unseen_waits(self, turn: int) -> None:
        """A task that nothing observes has let others run for the first time in its turn."""
        if self._holder is not None and self._granted == turn:
            self.enter("passes" if self.waiting else "rests")

    def _abort(self, task: trio.lowlevel.Task) -> trio.lowlevel.Abort:
        self._asleep.remove(task)
        self.withdraw(task)
        return trio.lowlevel.Abort.SUCCEEDED
