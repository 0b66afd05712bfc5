"""The runtime's answers to author code in one call, on their way from rank 0 to the other ranks.

Each rank asks in the same order, so a rank takes the answers to one question as they came. A rank that asks more often than
rank 0 did in the whole call runs other code: `OutOfStep`. Asking blocks until the answer is there, also in a thread that
model code has started.

Tasks and threads that model code starts have the context of the call in which they began, also when that call is over. What
they then ask is outside of a call, and has no order: the rank answers from what it knows. The same goes for what such a task
asks at the end of its own call, and rank 0 did not: whether the task was to end with the call, the rank cannot know.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.errors import ReactorError

#: in place of an answer: the code that asks is no part of the call
OUTSIDE: Final = object()


class OutOfStep(ReactorError):
    """A rank does not run the code that rank 0 runs."""


class ReplicatedAnswers:
    """The answers for one call. The I/O loop calls `put` and `finish`; the model loop makes the call.

    Attributes:
        caller: the task that makes the call; None before and after the call.
        made: whether this rank has made the call.
    """

    def __init__(self, host: ModelHost) -> None:
        self.caller: trio.lowlevel.Task | None = None
        self.made = False
        self._host = host
        self._came: dict[str, deque[Any]] = {}
        self._finished = False
        self._awaited = False  # by a task of the model loop
        self._changed = threading.Condition()
        self._waiting = trio.lowlevel.ParkingLot()  # tasks of the model loop

    def put(self, key: str, value: Any) -> None:
        """Add the next answer to `key`."""
        with self._changed:
            self._came.setdefault(key, deque()).append(value)
            self._notify()

    def finish(self) -> None:
        """Rank 0 has made the call: no further answer comes."""
        with self._changed:
            self._finished = True
            self._notify()

    def take(self, key: str) -> Any:
        """Take the next answer; block until it is there. For any thread but that of the I/O loop. Raises OutOfStep.

        Returns `OUTSIDE` if the code that asks is no part of the call.
        """
        if self.made:
            return OUTSIDE
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._came.get(key))
            return self._next(key)

    async def wait(self, key: str) -> Any:
        """Take the next answer, on the model loop. See `take`."""
        if self.made:
            return OUTSIDE
        await self._until(lambda: self._finished or bool(self._came.get(key)))
        return self._next(key)

    async def wait_finished(self) -> None:
        """Return when rank 0 has made the call. On the model loop."""
        await self._until(lambda: self._finished)

    async def _until(self, done: Callable[[], bool]) -> None:
        with self._changed:
            self._awaited = True
        while not done():
            await self._waiting.park()

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._awaited:  # a loop that computes must not be woken for nothing
            self._host.post(self._waiting.unpark_all)

    def _next(self, key: str) -> Any:
        if came := self._came.get(key):
            return came.popleft()
        if self.caller is not None and self.caller is _current_task():
            raise OutOfStep(f"it asked for {key} more often than rank 0")
        return OUTSIDE


def _current_task() -> trio.lowlevel.Task | None:
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:  # another thread
        return None


#: the answers of the call in which this code began, on a rank that follows; None outside of a call
IN_CALL: ContextVar[ReplicatedAnswers | None] = ContextVar("reactor_answers", default=None)
