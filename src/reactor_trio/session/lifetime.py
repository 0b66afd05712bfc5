"""How long a session may last: its length, how long its client may do nothing, and a server that goes down.

    Lifetime.run: sleep until the next warning or end -> tell -> end -> (if the model does not let go) dismiss

Each limit is an absolute time. The task sleeps until the nearest of them and looks again: a client that acts moves its idle
limit without waking anybody, and only one that was warned already is told anew. What was told last holds, so that of
several ends in sight the clients know the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.protocol import EndReason


class TimeLimits(msgspec.Struct, frozen=True):
    """Times of one session, in seconds; infinity: no limit.

    Attributes:
        length: how long it may last.
        idle: how long its controlling client may do nothing.
        warning: how long before such an end its clients are told, but at most half of the limit itself.
        farewell: how long after its end a session that still computes keeps its clients before they are told goodbye.
    """

    length: float = math.inf
    idle: float = math.inf
    warning: float = 10.0
    farewell: float = 1.0


class _End(msgspec.Struct, frozen=True):
    """An end in sight: when it comes, and when it is told."""

    at: float
    told_at: float
    reason: EndReason


class Lifetime:
    """The end of one session by the clock, on the I/O loop; `run` is a task of it.

    Args:
        limits: the length counts from now.
        tell: told the data of `reactor.ending`.
        end: ends the session for a reason.
        dismiss: says goodbye to its clients although it has not unwound.
    """

    def __init__(
        self,
        limits: TimeLimits,
        tell: Callable[[dict[str, Any]], None],
        end: Callable[[EndReason], None],
        dismiss: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._tell, self._end, self._dismiss = tell, end, dismiss
        self._wakeup = RepeatedEvent()
        self._acted = trio.current_time()
        self._busy = 0
        self._ends = [self._in(limits.length, "expired", self._acted)]
        self._told: _End | None = None
        self._over = False

    def acted(self) -> None:
        """The controlling client did something."""
        self._acted = trio.current_time()
        if self._told is not None:
            self._wakeup.set()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The controlling client is doing something that takes time, and has limits of its own."""
        self._busy += 1
        self.acted()
        try:
            yield
        finally:
            self._busy -= 1
            self.acted()
            self._wakeup.set()

    def announce(self, seconds: float) -> None:
        """The server goes down: the session ends so soon, and is told now."""
        now = trio.current_time()
        self._ends.append(_End(now + seconds, now, "draining"))
        self._wakeup.set()

    def over(self) -> None:
        """The session has been ended; its clients are waited for no longer than `farewell`."""
        self._over = True
        self._wakeup.set()

    def in_sight(self) -> dict[str, Any] | None:
        """Data of `reactor.ending` for a client that comes now; None if no end is in sight."""
        return None if self._told is None else self._say(self._told)

    async def run(self) -> None:
        """Task: warn, end and dismiss; cancelled when the session has unwound."""
        while not self._over:
            now = trio.current_time()
            ends = [*self._ends, self._idle()]
            nearest = min(ends, key=lambda end: end.at)
            if nearest.at <= now:
                self._end(nearest.reason)
                break
            self._warn(min((end for end in ends if end.told_at <= now), key=lambda end: end.at, default=None))
            await self._wakeup.wait(min([nearest.at, *(end.told_at for end in ends if end.told_at > now)]))
        await trio.sleep(self._limits.farewell)
        self._dismiss()

    def _warn(self, end: _End | None) -> None:
        before, self._told = self._told, end
        if end is not None and end != before:
            self._tell(self._say(end))
        elif end is None and before is not None:
            self._tell({"reason": before.reason, "seconds": None})

    def _say(self, end: _End) -> dict[str, Any]:
        return {"reason": end.reason, "seconds": round(end.at - trio.current_time(), 3)}

    def _idle(self) -> _End:
        return self._in(math.inf if self._busy else self._limits.idle, "idle", self._acted)

    def _in(self, seconds: float, reason: EndReason, now: float) -> _End:
        at = now + seconds
        return _End(at, at if math.isinf(at) else at - min(self._limits.warning, seconds / 2), reason)
