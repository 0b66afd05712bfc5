"""Turns on the model thread: of several sessions on one model one steps at a time, in the order that `RoundRobin` says.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took.
A turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so who waits
for ever stops nobody. What it computes when it goes on is taken from its share all the same.

One task grants turns, after all that is due at the instant has asked. With one session there is nothing to share: `NoTurns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.drivers.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.pacing import RoundRobin

T = TypeVar("T")

#: Checkpoints in a row at which a turn is kept: `send` has one or two; code that spins on them for ever must let go.
CHECKPOINTS = 100


class Turn(Protocol):
    """One session's way to the model thread.

    Attributes:
        held: whether it may step now.
        observer: sees where author code waits; None if that changes nothing.
    """

    @property
    def held(self) -> bool:
        """See above."""

    @property
    def observer(self) -> Observer | None:
        """See above."""

    async def take(self, rested: bool) -> float:
        """Return when this session may apply its commands and step; the seconds that others were waited for.

        It is asked for anew after a step. Whether the task has `rested` since its last checkpoint: see `ClockHooks.settle`.
        Cancelled, it has not got the turn.
        """

    def steps(self) -> None:
        """The turn is used for a step: what comes next is another turn."""

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)`, which stands for computing: nobody else steps meanwhile."""

    @property
    def of_this_task(self) -> bool:
        """Whether the calling task is a `run()` that takes turns."""

    def give_back(self) -> None:
        """Nothing is computed for a while; again and again does no harm."""

    def leave(self) -> None:
        """The session is over."""


class NoTurns:
    """The turn of the only session."""

    held = True
    observer = None

    def __init__(self, time: ClockHooks) -> None:
        self._time = time

    async def take(self, rested: bool) -> float:
        """At once, when all that is due now has happened."""
        await self._time.settle(rested)
        return 0.0

    def steps(self) -> None:
        """Nobody waits."""

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Nobody waits."""
        return await function(*args)

    of_this_task = False

    def give_back(self) -> None:
        """Nobody waits."""

    def leave(self) -> None:
        """Nobody waits."""


class Turns:
    """Grants turns. All of it is for the model loop, but for `open`."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        self._numbers = itertools.count()
        self._robin = RoundRobin()
        self._asking: dict[int, SharedTurn] = {}
        self._holder: SharedTurn | None = None
        self._wakeup = RepeatedEvent()

    def open(self) -> SharedTurn:
        """For a new session, whose number is in the order of these calls."""
        return SharedTurn(self, next(self._numbers))

    async def run(self) -> None:
        """Task: grant turns until cancelled."""
        while True:
            while self._holder is not None or not self._asking:
                await self._wakeup.wait()
            await self.time.settle(True)
            self._grant()

    def ask(self, turn: SharedTurn) -> None:
        """It wants a turn."""
        self._robin.ask(turn.number)
        self._asking[turn.number] = turn
        self._wakeup.set()

    def withdraw(self, turn: SharedTurn) -> None:
        """It wants none any more."""
        self._robin.withdraw(turn.number)
        self._asking.pop(turn.number, None)

    def returned(self, turn: SharedTurn) -> None:
        """It gives back what it has."""
        if self._holder is turn:
            self._holder = None
            self._wakeup.set()

    def used(self, turn: SharedTurn, seconds: float) -> None:
        """It has used the thread for so long."""
        self._robin.used(turn.number, seconds)

    def leave(self, turn: SharedTurn) -> None:
        """Its session is over."""
        self._robin.leave(turn.number)

    def _grant(self) -> None:
        if self._holder is None and (number := self._robin.next()) is not None:
            self._holder = self._asking.pop(number)
            self._holder.granted()


class SharedTurn:
    """A turn that is waited for. One task takes it; author code runs in that one, or in one that it watches."""

    def __init__(self, turns: Turns, number: int) -> None:
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
        self._resumed: float | None = None  # author code goes on without a turn
        self._checkpoints = 0

    @property
    def observer(self) -> Observer:
        """Itself."""
        return self

    async def take(self, rested: bool) -> float:
        """See `Turn`."""
        if (self.held and self._fresh) or self._waiting is not None:  # another task of this session waits for it already
            self.looking += 1
            try:
                await self._turns.time.settle(rested)
            finally:
                self.looking -= 1
            return 0.0
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
        if not self.held and self._turns.time.charges:
            await self.take(False)
        self._keeping = True
        try:
            return await function(*args)
        finally:
            self._keeping = False

    @property
    def of_this_task(self) -> bool:
        """See `Turn`."""
        return self._owner is trio.lowlevel.current_task()

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
            self._turns.used(self, trio.current_time() - self._since)
            self._turns.returned(self)

    def leave(self) -> None:
        """See `Turn`."""
        self.give_back()
        self._turns.leave(self)

    def granted(self) -> None:
        """It is this one's turn."""
        self.held = self._fresh = True
        self._since = trio.current_time()
        self._checkpoints = 0
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        trio.lowlevel.reschedule(waiting)

    # ---- where author code waits --------------------------------------------------------------------------------------

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
            self._turns.used(self, trio.current_time() - self._resumed)
            self._resumed = None

    def _abort(self, _raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        self._waiting = None
        self._turns.withdraw(self)
        return trio.lowlevel.Abort.SUCCEEDED
