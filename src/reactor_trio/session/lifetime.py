"""Ends a session by the clock: its length, the time in which its client does nothing, a server that goes down.

    Lifetime.run: sleep until the next warning or end -> warn -> end

Each limit is an absolute time. The task sleeps until the nearest limit and looks again. A client that acts moves its idle
limit without waking the task; only if the clients were warned already are they warned again. The last warning holds, so of
several ends in sight the clients know the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency.lost_time import resumed_at
from reactor_trio.configuration.settings import LimitSettings
from reactor_trio.protocol import EndReason


class _End(msgspec.Struct, frozen=True):
    """An end in sight: when it comes, and when the clients are warned of it."""

    at: float
    warn_at: float
    reason: EndReason


class Lifetime:
    """The end of one session by the clock, on the I/O loop; `run` is a task of it.

    Args:
        limits: how long the session may last, from now on, how long its client may do nothing, and how long before such an
            end the clients are warned, which is at most half of the limit itself.
        longest: seconds that it may last, if that is less.
    """

    def __init__(self, limits: LimitSettings, longest: float) -> None:
        self._limits = limits
        #: cancelled, `run` looks again
        self._sleep = trio.CancelScope()
        self._acted = trio.current_time()
        self._busy = 0
        self._ends = [self._in(min(limits.session_length or math.inf, longest), "expired", self._acted)]
        self._warned: _End | None = None
        self._over = False

    @property
    def ends_at(self) -> float:
        """The time at which the session ends at the latest, in `trio.current_time()` seconds; infinity without a limit."""
        return min(end.at for end in self._ends)

    def acted(self) -> None:
        """Note that the controlling client did something."""
        self._acted = trio.current_time()
        if self._warned is not None:
            self._sleep.cancel()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A block in which the controlling client does something that takes time and has limits of its own."""
        self._busy += 1
        self.acted()
        try:
            yield
        finally:
            self._busy -= 1
            self.acted()
            self._sleep.cancel()

    def announce(self, seconds: float) -> None:
        """End the session in `seconds`, since the server goes down; its clients are warned now."""
        now = trio.current_time()
        self._ends.append(_End(now + seconds, now, "draining"))
        self._sleep.cancel()

    def reason(self, reason: EndReason) -> EndReason:
        """Return why the session ends if its model ends it for `reason`. A server that goes down loads no model again."""
        goes_down = any(end.reason == "draining" for end in self._ends)
        return "draining" if reason == "model_restarting" and goes_down else reason

    def over(self) -> None:
        """Note that the session has been ended: there is nothing to warn of any more."""
        self._over = True
        self._sleep.cancel()

    def in_sight(self) -> dict[str, Any] | None:
        """Data of `reactor.ending` for a client that attaches now; None if no end is in sight."""
        return None if self._warned is None else self._data(self._warned)

    async def run(self, say: Callable[[str, dict[str, Any]], None], end: Callable[[EndReason], None]) -> None:
        """Task: warn, and end the session when it is time.

        Args:
            say: sends the clients a message: type, data.
            end: ends the session for a reason.
        """
        while not self._over:
            now = trio.current_time()
            ends = [*self._ends, self._idle()]
            nearest = min(ends, key=lambda each: each.at)
            if nearest.at <= now:
                end(nearest.reason)
                break
            before = self._warned
            self._warned = min((each for each in ends if each.warn_at <= now), key=lambda each: each.at, default=None)
            if self._warned is not None and self._warned != before:
                say("reactor.ending", self._data(self._warned))
            elif self._warned is None and before is not None:
                say("reactor.ending", {"reason": before.reason, "seconds": None})
            with trio.move_on_at(min([nearest.at, *(each.warn_at for each in ends if each.warn_at > now)])) as self._sleep:
                await trio.sleep_forever()

    def _data(self, end: _End) -> dict[str, Any]:
        return {"reason": end.reason, "seconds": round(end.at - trio.current_time(), 3)}

    def _idle(self) -> _End:
        seconds = math.inf if self._busy else self._limits.session_idle or math.inf
        return self._in(seconds, "idle", max(self._acted, resumed_at()))

    def _in(self, seconds: float, reason: EndReason, now: float) -> _End:
        at = now + seconds
        return _End(at, at if math.isinf(at) else at - min(self._limits.end_warning, seconds / 2), reason)
