"""Memory that is free goes back to the system between two sessions.

glibc's malloc keeps what was freed in heaps, one or more for each thread that ever allocated, and of its own accord gives
back only what lies at a heap's end. Encoders have threads of their own and live as long as a session, so after sessions of
many codecs a third of the process was free memory that nobody used, and it went on growing. `malloc_trim` gives it back.
It goes through every heap, so it runs seldom, and where no step and no picture waits for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Awaitable, Callable
from functools import cache

import trio

#: seconds between two times, at least
EACH = 30.0


@cache
def trimmer() -> Callable[[int], int] | None:
    """The C library's `malloc_trim`, None where there is none: musl, macOS."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


class FreeMemory:
    """Gives free memory back after sessions, at most once in `each` seconds of the loop's clock.

    Args:
        run: runs a function away from the loop.
        trim: what gives it back, None if nothing does.
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
        """Give it back if that was long enough ago; to its end, also if the caller was cancelled."""
        now = trio.current_time()
        if self._trim is None or now < self._next:
            return
        self._next = now + self._each
        with trio.CancelScope(shield=True):
            await self._run(self._trim, 0)
