"""One clock for two processes: `trio.current_time()` is the same in the server's process and in the model's process.

It reads the system's monotonic clock, which all processes share. Trio's own clock adds a random offset in each process.
"""

from __future__ import annotations

import time

import trio

from reactor_trio.concurrency.clock_hooks import LinkedClock


def ahead() -> float:
    """Return how far `trio.current_time()` is ahead of the system's clock in this process, in seconds."""
    return trio.current_time() - time.perf_counter()


def shared_clock(ahead: float) -> LinkedClock:
    """A clock that is `ahead` seconds ahead of the system's."""
    return LinkedClock(lambda: time.perf_counter() + ahead)
