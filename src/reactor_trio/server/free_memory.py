"""Returns free memory to the system between two sessions.

glibc's malloc keeps freed memory in heaps, one or more for each thread that ever allocated, and returns only the free memory
at a heap's end. Encoders have threads of their own and live as long as a session, so after sessions of many codecs a third
of the process was unused memory, and it grew. `malloc_trim` returns it. It walks every heap, so it runs seldom, and at a
moment when no step and no picture waits for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Awaitable, Callable
from functools import cache

import trio

#: least seconds between two trims
EACH = 30.0


@cache
def trimmer() -> Callable[[int], int] | None:
    """Return the C library's `malloc_trim`, None on systems without it (musl, macOS)."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


class FreeMemory:
    """Returns free memory after sessions, at most once in `each` seconds of the loop's clock.

    Args:
        run: runs a function away from the loop.
        trim: returns the memory; None: nothing does.
    """

    def __init__(
        self,
        run: Callable[[Callable[[int], int], int], Awaitable[object]] = trio.to_thread.run_sync,
        trim: Callable[[int], int] | None = None,
        each: float = EACH,
    ) -> None:
        self._run, self._trim, self._each = run, trim, each
        self._next = trio.current_time() + each

    async def after_session(self) -> None:
        """Trim if the last time is long enough ago. Completes even if the caller is cancelled."""
        now = trio.current_time()
        if self._trim is None or now < self._next:
            return
        self._next = now + self._each
        with trio.CancelScope(shield=True):
            await self._run(self._trim, 0)
