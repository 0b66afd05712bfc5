"""How long another process is waited for.

A process that was stopped, or whose machine was suspended, wakes up to find that the time is over for whoever it asked, and
that the answer has not been read. So the time is counted in slices: however long a standstill lasts, it costs one of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

SLICES = 4


async def within(seconds: float, done: Callable[[], Awaitable[object]]) -> bool:
    """Whether `done` returns within so many seconds that this process lives through.

    Else it is cancelled; it is called and cancelled several times, so it must only wait.
    """
    for _ in range(SLICES):
        with trio.move_on_after(seconds / SLICES):
            await done()
            return True
    return False
