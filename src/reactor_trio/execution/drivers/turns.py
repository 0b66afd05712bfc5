"""Turns on the model thread: of several sessions on one model one steps at a time, in the order that `RoundRobin` chooses.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took. A
turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so code that
waits for ever stops no other session. What it computes when it goes on still counts as its share.

A `run()` may emit in several tasks. Each of them takes a turn of its own, since the thread computes for one task at a time.
Only the code of `run()` itself is observed, so the turn of another task lasts until that task waits for the first time.

One task grants turns, after everything that is due at the instant has asked. A single session has the plain `Turn`, which is
always held.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.drivers.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.pacing import RoundRobin

T = TypeVar("T")

#: Checkpoints in a row at which a turn is kept: `send` has one or two; code that spins on checkpoints must give it back.
CHECKPOINTS = 100


class Turn:
    """How a session gets the model thread. This one is for the only session of a model: nothing else wants the thread.

    Attributes:
        held: whether the session may step now.
        of_this_task: whether the calling task is that of a `run()` that takes turns, or was started by it.
    """

    held = True

    def __init__(self, time: ClockHooks) -> None:
        self._time = time

    @property
    def observer(self) -> Observer | None:
        """Sees where author code waits; None if that changes nothing."""
        return None

    @property
    def of_this_task(self) -> bool:
        """See above."""
        return False

    async def take(self, rested: bool) -> float:
        """Return when this session may apply its commands and step; the seconds for which it waited for other sessions.

        After a step this takes another turn. Cancelled, it has not taken the turn.

        Args:
            rested: whether the task has rested since its last checkpoint; see `ClockHooks.settle`.
        """
        await self._time.settle(rested)
        return 0.0

    def steps(self) -> None:
        """Use the turn for a step: the next `take` takes another turn."""

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)`, which counts as computing: no other session steps meanwhile."""
        return await function(*args)

    def give_back(self) -> None:
        """Give the turn back, if the calling task holds it: the task computes nothing for a while."""

    def leave(self) -> None:
        """Give the turn back for good: the session is over."""


class Turns:
    """Grants turns. All methods but `open` are for the model loop."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        self.robin = RoundRobin()
        self._numbers = itertools.count()
        self._asking: dict[int, SharedTurn] = {}
        self._holder: SharedTurn | None = None
        self._wakeup = RepeatedEvent()

    def open(self) -> SharedTurn:
        """The turn of a new session. Turns are numbered in the order of these calls."""
        return SharedTurn(self, next(self._numbers))

    async def run(self) -> None:
        """Task: grant turns until cancelled."""
        while True:
            while self._holder is not None or not self._asking:
                await self._wakeup.wait()
            await self.time.settle(True)
            if self._holder is None and (number := self.robin.next()) is not None:
                self._holder = self._asking.pop(number)
                self._holder.granted()

    def ask(self, turn: SharedTurn) -> None:
        """Note that the session wants a turn."""
        self.robin.ask(turn.number)
        self._asking[turn.number] = turn
        self._wakeup.set()

    def withdraw(self, turn: SharedTurn) -> None:
        """Note that the session wants no turn any more."""
        self.robin.withdraw(turn.number)
        self._asking.pop(turn.number, None)

    def returned(self, turn: SharedTurn) -> None:
        """Take the turn back."""
        if self._holder is turn:
            self._holder = None
            self._wakeup.set()


class SharedTurn(Turn):
    """The turn of one of several sessions. One task at a time holds it, that in which author code runs."""

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__(turns.time)
        self.number = number
        self.held = False
        #: tasks that have applied a command in this turn and are about to look for the next one
        self.looking = 0
        self._turns = turns
        self._waiting: deque[trio.lowlevel.Task] = deque()
        self._owner: trio.lowlevel.Task | None = None  # runs a `run()`
        self._holder: trio.lowlevel.Task | None = None  # while it is held
        self._fresh = False
        self._since = 0.0
        self._granted = 0  # turns so far
        self._keeping: set[trio.lowlevel.Task] = set()  # tasks that compute, whatever they await
        self._resumed: float | None = None  # when author code went on without a turn
        self._checkpoints = 0

    @property
    def observer(self) -> Observer:
        """See `Turn`."""
        return self

    @property
    def of_this_task(self) -> bool:
        """See `Turn`."""
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not self._owner and task is not None:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None

    async def take(self, rested: bool) -> float:
        """See `Turn`."""
        task = trio.lowlevel.current_task()
        if self._held_by(task) and self._fresh:
            self.looking += 1
            try:
                return await super().take(rested)
            finally:
                self.looking -= 1
        began = trio.current_time()
        self.give_back()
        self._waiting.append(task)
        if not self.held and len(self._waiting) == 1:
            self._turns.ask(self)
        await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: self._abort(task))
        if self._owner is not None and task is not self._owner:
            trio.lowlevel.current_trio_token().run_sync_soon(self._unseen_waits, self._granted)
        return trio.current_time() - began

    def steps(self) -> None:
        """See `Turn`."""
        self._fresh = False

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """See `Turn`."""
        task = trio.lowlevel.current_task()
        if self._time.charges and not self._held_by(task):
            await self.take(False)
        self._keeping.add(task)
        try:
            return await function(*args)
        finally:
            self._keeping.discard(task)

    async def run(self, code: Awaitable[Any]) -> Any:
        """Await a `run()`, which takes turns in `emit` from now on."""
        self._owner = trio.lowlevel.current_task()
        try:
            return await TracedAwaitable(code, observer=self)
        finally:
            self.leave()

    def give_back(self) -> None:
        """See `Turn`."""
        if self._held_by(trio.lowlevel.current_task()):
            self._release()

    def leave(self) -> None:
        """See `Turn`."""
        if self.held:
            self._release()
        self._holder = None
        self._turns.robin.leave(self.number)

    def granted(self) -> None:
        """Begin the turn, and wake the task that waits for it."""
        self.held = self._fresh = True
        self._since = trio.current_time()
        self._granted += 1
        self._checkpoints = 0
        self._holder = self._waiting.popleft()
        trio.lowlevel.reschedule(self._holder)

    # ---- `Observer`: where author code waits --------------------------------------------------------------------------

    def resumes(self) -> None:
        """See `Observer`."""
        self._resumed = None if self._held_by(trio.lowlevel.current_task()) else trio.current_time()

    def waits(self, *, checkpoint: bool) -> None:
        """See `Observer`."""
        self.ends()
        if trio.lowlevel.current_task() in self._keeping:
            return
        self._checkpoints += 1
        if not checkpoint or self._checkpoints > CHECKPOINTS:
            self.give_back()

    def ends(self) -> None:
        """See `Observer`."""
        if self._resumed is not None:
            self._turns.robin.used(self.number, trio.current_time() - self._resumed)
            self._resumed = None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _held_by(self, task: trio.lowlevel.Task) -> bool:
        return self.held and self._holder is task

    def _release(self) -> None:
        self.held, self._holder = False, None
        self._turns.robin.used(self.number, trio.current_time() - self._since)
        self._turns.returned(self)
        if self._waiting:
            self._turns.ask(self)

    def _unseen_waits(self, turn: int) -> None:
        """A task that nothing observes has let others run for the first time in its turn."""
        if self.held and self._granted == turn and self._holder not in self._keeping:
            self._release()

    def _abort(self, task: trio.lowlevel.Task) -> trio.lowlevel.Abort:
        self._waiting.remove(task)
        if not self._waiting:
            self._turns.withdraw(self)
        return trio.lowlevel.Abort.SUCCEEDED
