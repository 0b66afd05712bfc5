"""What author code has asked the runtime in one call, on its way from rank 0 to the others.

Each rank asks in the same order, so the answers to one question are taken as they came. A rank that asks when rank 0 has
made the call and asked less is not in the same code: `OutOfStep`. Asking waits where it is called, also in a thread that
model code has started. What is not asked in a call (by a thread of its own, say) has no order, and is answered from what the
rank knows.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import ContextVar
from typing import Any

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import ReactorError


class OutOfStep(ReactorError):
    """A rank does not run the code that rank 0 runs."""


class Answers:
    """The answers for one call. `put` and `made` are heard on the I/O loop.

    Args:
        host: whose model loop makes the call.
    """

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._came: dict[str, deque[Any]] = {}
        self._made = False
        self._awaited = False  # by a task of the model loop
        self._changed = threading.Condition()
        self._wakeup = RepeatedEvent()

    def put(self, key: str, value: Any) -> None:
        """Rank 0 has asked for `key`."""
        with self._changed:
            self._came.setdefault(key, deque()).append(value)
            self._tell()

    def made(self) -> None:
        """Rank 0 asks nothing more in this call."""
        with self._changed:
            self._made = True
            self._tell()

    def take(self, key: str) -> Any:
        """Any thread but the I/O loop's: the next answer; blocks until there is one. Raises OutOfStep."""
        with self._changed:
            while not self._ready(key):
                self._changed.wait()
            return self._came[key].popleft()

    async def wait(self, key: str) -> Any:
        """Model loop: the next answer. Raises OutOfStep."""
        with self._changed:
            self._awaited = True
        while not self._ready(key):
            await self._wakeup.wait()
        return self._came[key].popleft()

    async def wait_made(self) -> None:
        """Model loop: return when rank 0 has made the call."""
        with self._changed:
            self._awaited = True
        while not self._made:
            await self._wakeup.wait()

    def _tell(self) -> None:
        self._changed.notify_all()
        if self._awaited:  # else a loop that computes would be woken for nothing
            self._host.post(self._wakeup.set)

    def _ready(self, key: str) -> bool:
        if self._came.get(key):
            return True
        if self._made:
            raise OutOfStep(f"it asked for {key} more often than rank 0")
        return False


#: the call that this code is part of, on a rank that follows
IN_CALL: ContextVar[Answers | None] = ContextVar("reactor_answers", default=None)
