"""One clock for two processes: `trio.current_time()` is the same in the server's process and in the model's process.

It reads the system's monotonic clock, which all processes share. Trio's own clock adds a random offset in each process.
"""

from __future__ import annotations

import time

import trio


def ahead() -> float:
    """Return how far `trio.current_time()` is ahead of the system's clock in this process, in seconds."""
    return trio.current_time() - time.perf_counter()


class SharedClock(trio.abc.Clock):
    """A clock that is `ahead` seconds ahead of the system's."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def start_clock(self) -> None:
        """See `trio.abc.Clock`."""

    def current_time(self) -> float:
        """See `trio.abc.Clock`."""
        return time.perf_counter() + self._ahead

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """See `trio.abc.Clock`."""
        return deadline - self.current_time()
