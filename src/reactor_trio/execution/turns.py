"""Turns on the model thread: of several sessions on one model one steps at a time, in the order that `RoundRobin` chooses.

A session that is due asks for a turn, applies its commands, makes its step, and gives the turn back with the time it took. A
turn is for code that computes: where a step or a handler waits for something, its turn is given back at once, so code that
waits for ever stops no other session. What it computes when it goes on still counts as its share.

A `run()` may emit in several tasks. Each of them takes a turn of its own, since the thread computes for one task at a time.
Only the code of `run()` itself is observed, so the turn of another task lasts until that task waits for the first time.

`TRANSITIONS` is the life of a turn. Who owns what:

    Turns        which sessions ask, which turns are out, and the task that waits to grant the next one
    SharedTurn   the state of one session's turn, the tasks that wait for it, and the task that has it

One task grants turns, after everything that is due at the instant has asked: one at a time (`Turns.run`), or one to each
session that asks (`DynamicBatcher.run`). The only session of a model has the plain `Turn`, which nothing else wants.
"""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.pacing import RoundRobin

T = TypeVar("T")

#: Checkpoints in a row at which a turn is kept: `send` has one or two; code that spins on checkpoints must give it back.
CHECKPOINTS = 100


class TurnState(enum.Enum):
    """Where the turn of a session is."""

    IDLE = enum.auto()  # no task of the session wants it
    ASKING = enum.auto()  # tasks of the session wait for it
    HELD = enum.auto()  # a task of the session has it, until that task waits for something
    KEPT = enum.auto()  # that task computes what it awaits, so it has the turn until that is done


#: What happens to a turn. wanted: a task begins to wait for it; unwanted: the last task that waited is cancelled; granted:
#: the task that has waited for the longest time gets it; rests: that task waits for something, or is done; computes,
#: computed: it begins to await what computes, or has it; over: the session is over.
TurnEvent = Literal["wanted", "unwanted", "granted", "rests", "computes", "computed", "over"]

#: What follows: calls of `Turns`, and the begin and the end of the time for which the session pays.
TurnAction = Literal["ask", "withdraw", "begin", "end", "forget"]

_IDLE, _ASKING, _HELD, _KEPT = TurnState

#: state -> event -> the next state, and what is done then. An event that a state does not name cannot happen in it.
TRANSITIONS: dict[TurnState, dict[TurnEvent, tuple[TurnState, tuple[TurnAction, ...]]]] = {
    _IDLE: {"wanted": (_ASKING, ("ask",)), "over": (_IDLE, ("forget",))},
    _ASKING: {
        "wanted": (_ASKING, ()), "unwanted": (_IDLE, ("withdraw",)),
        "granted": (_HELD, ("begin",)), "over": (_IDLE, ("withdraw", "forget")),
    },
    _HELD: {
        "wanted": (_HELD, ()), "unwanted": (_HELD, ()),
        "rests": (_IDLE, ("end",)), "computes": (_KEPT, ()), "over": (_IDLE, ("end", "forget")),
    },
    _KEPT: {
        "wanted": (_KEPT, ()), "unwanted": (_KEPT, ()),
        "rests": (_KEPT, ()), "computed": (_HELD, ()), "over": (_IDLE, ("end", "forget")),
    },
}  # fmt: skip


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
        """Give the turn back for good: the session is over."""


class Turns:
    """Grants turns. All methods but `open` are for the model loop."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        self.robin = RoundRobin()
        self._numbers = itertools.count()
        self._asking: dict[int, SharedTurn] = {}
        self._out: set[SharedTurn] = set()
        #: the task that grants turns, while it waits
        self._granting = trio.lowlevel.ParkingLot()

    def open(self) -> SharedTurn:
        """The turn of a new session. Turns are numbered in the order of these calls."""
        return SharedTurn(self, next(self._numbers))

    async def run(self) -> None:
        """Task: grant one turn after the other until cancelled."""
        while True:
            await self._until_asked()
            if (number := self.robin.next()) is not None:
                self._grant(number)
            await self._until_back()

    async def grant_all(self) -> list[SharedTurn]:
        """Wait until a session asks, and grant a turn to each that does; return these when all of them are given back."""
        await self._until_asked()
        granted = [self._asking[number] for number in sorted(self._asking)]
        for turn in granted:
            self.robin.withdraw(turn.number)
            self._grant(turn.number)
        await self._until_back()
        return granted

    # ---- for `SharedTurn` ---------------------------------------------------------------------------------------------

    def ask(self, turn: SharedTurn) -> None:
        """Note that the session wants a turn."""
        self.robin.ask(turn.number)
        self._asking[turn.number] = turn
        if not self._out:
            self._granting.unpark_all()

    def withdraw(self, turn: SharedTurn) -> None:
        """Note that the session wants no turn any more."""
        self.robin.withdraw(turn.number)
        del self._asking[turn.number]

    def returned(self, turn: SharedTurn, seconds: float) -> None:
        """Take the turn back, which has lasted for so long."""
        self.robin.used(turn.number, seconds)
        self._out.remove(turn)
        if not self._out:
            self._granting.unpark_all()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _until_asked(self) -> None:
        """Return when a session wants a turn, and all that is due at this instant have asked."""
        while not self._asking:
            await self._granting.park()
        await self.time.settle(True)

    async def _until_back(self) -> None:
        while self._out:
            await self._granting.park()

    def _grant(self, number: int) -> None:
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
        if self.state is _IDLE and self._waiting:  # they waited for a turn of their own while another task had this one
            self.enter("wanted")

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
        if self._holder is task:
            return await super().take(rested)
        began = trio.current_time()
        self._waiting.append(task)
        self.enter("wanted")
        await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: self._abort(task))
        if self._owner is not None and task is not self._owner:
            trio.lowlevel.current_trio_token().run_sync_soon(self._unseen_waits, self._granted)
        return trio.current_time() - began

    async def compute(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """See `Turn`."""
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
        """See `Turn`."""
        self._owner = trio.lowlevel.current_task()
        try:
            return await TracedAwaitable(code, observer=self)
        finally:
            self.leave()

    def give_back(self) -> None:
        """See `Turn`."""
        if self._holder is trio.lowlevel.current_task():
            self.enter("rests")

    def leave(self) -> None:
        """See `Turn`."""
        self.enter("over")

    # ---- `Observer`: where author code waits --------------------------------------------------------------------------

    def resumes(self) -> None:
        """See `Observer`."""
        self._resumed = None if self._holder is trio.lowlevel.current_task() else trio.current_time()

    def waits(self, *, checkpoint: bool) -> None:
        """See `Observer`."""
        self.ends()
        if self._holder is not trio.lowlevel.current_task():
            return
        self._checkpoints += 1
        if not checkpoint or self._checkpoints > CHECKPOINTS:
            self.enter("rests")

    def ends(self) -> None:
        """See `Observer`."""
        if self._resumed is not None:
            self.turns.robin.used(self.number, trio.current_time() - self._resumed)
            self._resumed = None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._since = trio.current_time()
        self._granted += 1
        self._checkpoints = 0
        self._holder = self._waiting.popleft()
        trio.lowlevel.reschedule(self._holder)

    def _unseen_waits(self, turn: int) -> None:
        """A task that nothing observes has let others run for the first time in its turn."""
        if self._holder is not None and self._granted == turn:
            self.enter("rests")

    def _abort(self, task: trio.lowlevel.Task) -> trio.lowlevel.Abort:
        self._waiting.remove(task)
        if not self._waiting:
            self.enter("unwanted")
        return trio.lowlevel.Abort.SUCCEEDED
