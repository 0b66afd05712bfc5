"""One clock for two processes: what `trio.current_time()` says in the server, it says in the model's process.

It reads the system's monotonic clock, which is one for all processes; Trio's own adds a number of its own to that in each.
"""

from __future__ import annotations

import time

import trio


def ahead() -> float:
    """How far `trio.current_time()` is ahead of the system's clock here, in seconds."""
    return trio.current_time() - time.perf_counter()


class SharedClock(trio.abc.Clock):
    """A clock that is `ahead` seconds ahead of the system's."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def start_clock(self) -> None:
        """It runs."""

    def current_time(self) -> float:
        """In seconds."""
        return time.perf_counter() + self._ahead

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds until `deadline`."""
        return deadline - self.current_time()
