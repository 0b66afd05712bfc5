"""Turns on the model thread: of several sessions on one model one steps at a time, in the order that `RoundRobin` chooses.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took. A
turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so code that
waits for ever stops no other session. What it computes when it goes on still counts as its share.

One task grants turns, after everything that is due at the instant has asked. A single session has the plain `Turn`, which is
always held.
"""

from __future__ import annotations

import itertools
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
        of_this_task: whether the calling task is a `run()` that takes turns.
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
        """Give the turn back, if it is held: the session computes nothing for a while."""

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
    """The turn of one of several sessions. One task takes it; author code runs in that task, or in one that it observes."""

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__(turns.time)
        self.number = number
        self.held = False
        #: tasks that have applied a command in this turn and are about to look for the next one
        self.looking = 0
        self._turns = turns
        self._waiting: trio.lowlevel.Task | None = None
        self._owner: trio.lowlevel.Task | None = None  # runs a `run()`
        self._fresh = False
        self._since = 0.0
        self._keeping = False
        self._resumed: float | None = None  # when author code went on without a turn
        self._checkpoints = 0

    @property
    def observer(self) -> Observer:
        """See `Turn`."""
        return self

    @property
    def of_this_task(self) -> bool:
        """See `Turn`."""
        return self._owner is trio.lowlevel.current_task()

    async def take(self, rested: bool) -> float:
        """See `Turn`."""
        if (self.held and self._fresh) or self._waiting is not None:  # another task of this session waits for it already
            self.looking += 1
            try:
                return await super().take(rested)
            finally:
                self.looking -= 1
        began = trio.current_time()
        self.give_back()
        self._turns.ask(self)
        self._waiting = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        return trio.current_time() - began

    def steps(self) -> None:
        """See `Turn`."""
        self._fresh = False

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """See `Turn`."""
        if not self.held and self._time.charges:
            await self.take(False)
        self._keeping = True
        try:
            return await function(*args)
        finally:
            self._keeping = False

    async def run(self, code: Awaitable[Any]) -> Any:
        """Await a `run()`, which takes turns in `emit` from now on."""
        self._owner = trio.lowlevel.current_task()
        try:
            return await TracedAwaitable(code, observer=self)
        finally:
            self.leave()

    def give_back(self) -> None:
        """See `Turn`."""
        if self.held:
            self.held = False
            self._turns.robin.used(self.number, trio.current_time() - self._since)
            self._turns.returned(self)

    def leave(self) -> None:
        """See `Turn`."""
        self.give_back()
        self._turns.robin.leave(self.number)

    def granted(self) -> None:
        """Begin the turn, and wake the task that waits for it."""
        self.held = self._fresh = True
        self._since = trio.current_time()
        self._checkpoints = 0
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        trio.lowlevel.reschedule(waiting)

    # ---- `Observer`: where author code waits --------------------------------------------------------------------------

    def resumes(self) -> None:
        """See `Observer`."""
        self._resumed = None if self.held else trio.current_time()

    def waits(self, *, checkpoint: bool) -> None:
        """See `Observer`."""
        self.ends()
        if self._keeping:
            return
        self._checkpoints += 1
        if not checkpoint or self._checkpoints > CHECKPOINTS:
            self.give_back()

    def ends(self) -> None:
        """See `Observer`."""
        if self._resumed is not None:
            self._turns.robin.used(self.number, trio.current_time() - self._resumed)
            self._resumed = None

    def _abort(self, _raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        self._waiting = None
        self._turns.withdraw(self)
        return trio.lowlevel.Abort.SUCCEEDED
