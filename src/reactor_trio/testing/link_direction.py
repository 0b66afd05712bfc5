"""One direction of a link that has a rate, a delay and a buffer: arithmetic in exact times."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Close:
    """The last item from one end: a WebSocket close code and the reason as text."""

    code: int
    reason: str


Item = str | bytes | Close


class Pipe:
    """One direction of a link. It reads no clock: callers pass the time, in seconds, which never goes back.

    Args:
        rate: bits per second, None for any.
        delay: seconds from the passing of a message's last bit to its arrival.
        buffer: bytes that may wait to pass.
        jitter: further seconds of delay for message number n; messages stay in order.
    """

    def __init__(self, rate: float | None, delay: float, buffer: int, jitter: Callable[[int], float] | None) -> None:
        self.delay = delay
        #: since when nothing passes, None while it flows
        self.held_since: float | None = None
        self._rate = rate
        self._buffer = 8 * buffer
        self._jitter = jitter
        self._passing: deque[tuple[Item, int]] = deque()  # with bits; the first of them passes
        self._arriving: deque[tuple[Item, float]] = deque()  # with the time of arrival
        self._began = 0.0  # `_left` bits of the first were still to pass at this time
        self._left = 0.0
        self._passed = 0
        self._last_arrival = -math.inf

    def put(self, item: Item, size: int, now: float) -> None:
        """Put in a message of `size` bytes, even if there is no room yet; see `enters_at`."""
        self.advance(now)
        if not self._passing:
            self._began, self._left = now, 8 * size
        self._passing.append((item, 8 * size))
        self.advance(now)

    def enters_at(self) -> float:
        """Return when the last byte put in has room in the buffer: -inf if it has already, inf while the link is held."""
        waiting = sum(bits for _, bits in self._passing) - (self._passing[0][1] - self._left) if self._passing else 0.0
        if waiting <= self._buffer:
            return -math.inf
        if self.held_since is not None:
            return math.inf
        return self._began + (waiting - self._buffer) / self._rate if self._rate else self._began

    def arrives_at(self) -> float:
        """Return when the next message arrives: inf if none is under way or the link is held."""
        if self._arriving:
            return self._arriving[0][1]
        return self._arrival(self._passes_at()) if self._passing and self.held_since is None else math.inf

    def take(self, now: float) -> Item | None:
        """Return the next message that has arrived, None if there is none."""
        self.advance(now)
        return self._arriving.popleft()[0] if self._arriving and self._arriving[0][1] <= now else None

    def advance(self, now: float) -> None:
        """Move the messages that pass until `now`."""
        while self._passing and self.held_since is None and (at := self._passes_at()) <= now:
            self._last_arrival = self._arrival(at)
            self._arriving.append((self._passing.popleft()[0], self._last_arrival))
            self._passed += 1
            self._began = at
            self._left = self._passing[0][1] if self._passing else 0.0

    def set_rate(self, rate: float | None, now: float) -> None:
        """Change the rate from `now` on."""
        self._settle(now)
        self._rate = rate

    def hold(self, now: float) -> None:
        """Hold the link; messages that have passed still arrive."""
        if self.held_since is None:
            self._settle(now)
            self.held_since = now

    def release(self, now: float) -> None:
        """End `hold`."""
        if self.held_since is not None:
            self.held_since, self._began = None, now

    def _settle(self, now: float) -> None:
        """Account for the bits passed until `now`, so that another rate can apply from here."""
        self.advance(now)
        if self._passing and self.held_since is None:
            self._left -= (now - self._began) * self._rate if self._rate else 0.0
            self._began = now

    def _passes_at(self) -> float:
        return self._began + self._left / self._rate if self._rate else self._began

    def _arrival(self, passed: float) -> float:
        late = self._jitter(self._passed) if self._jitter is not None else 0.0
        return max(self._last_arrival, passed + self.delay + late)
