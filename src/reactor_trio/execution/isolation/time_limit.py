"""A limit on the time that another process has to answer.

If this process is stopped, or its machine is suspended, the limit may be over when it continues, although the answer is
there and only unread. So the limit consists of slices, and a standstill of any length costs one slice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

SLICES = 4


async def within(seconds: float, done: Callable[[], Awaitable[object]]) -> bool:
    """Wait for `done`, and return whether it returned within `seconds` in which this process ran.

    `done` may be called and cancelled several times, so it must only wait.
    """
    for _ in range(SLICES):
        with trio.move_on_after(seconds / SLICES):
            await done()
            return True
    return False
