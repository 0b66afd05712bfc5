"""Returns free memory to the system between sessions, and once when the last of them is over.

glibc's malloc keeps freed memory in heaps, one or more for each thread that ever allocated, and returns only the free memory
at a heap's end. Encoders have threads of their own and live as long as a session, so after sessions of many codecs a third
of the process was unused memory, and it grew. `malloc_trim` returns it. It walks every heap, so it runs seldom, and at a
moment when no step and no picture waits for it.

When no session has run for a while, the last one of a burst is followed by a trim, too, and before it by one collection.
The runtime's own objects need none (`tests/leftovers`). Those of authors may: an exception that a model keeps, a graph of
tensors. The collector looks at old objects seldom while a server has clients (`interpreter`), and never while it has none.
"""

from __future__ import annotations

import ctypes
import gc
import math
from collections.abc import Awaitable, Callable
from functools import cache

import trio

#: least seconds between two trims after sessions
EACH = 30.0
#: seconds without a session after which a server is idle
IDLE = 5.0


@cache
def trimmer() -> Callable[[int], int] | None:
    """Return the C library's `malloc_trim`, None on systems without it (musl, macOS)."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


class MemoryReclaimer:
    """Returns free memory: after sessions at most once in `each` seconds of the loop's clock, and once when idle.

    Args:
        run: runs a function away from the loop.
        trim: returns the memory; None: nothing does.
        collect: frees what only the garbage collector can.
        each: see above.
    """

    def __init__(
        self,
        run: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
        trim: Callable[[int], int] | None = None,
        collect: Callable[[], int] = gc.collect,
        each: float = EACH,
    ) -> None:
        self._run, self._trim, self._collect, self._each = run, trim, collect, each
        self._next = trio.current_time() + each
        #: when the process is idle, if no session begins before; never, once that has been seen to
        self._idle_at = math.inf
        self._sleep = trio.CancelScope()  # until then

    def session_over(self) -> None:
        """Note that a session is over."""
        self._idle_at = self._sleep.deadline = trio.current_time() + IDLE

    async def after_session(self) -> None:
        """Note that a session is over, and trim if the last time is long enough ago.

        Completes even if the caller is cancelled.
        """
        self.session_over()
        now = trio.current_time()
        if self._trim is None or now < self._next:
            return
        self._next = now + self._each
        with trio.CancelScope(shield=True):
            await self._run(self._return)

    async def when_idle(self, busy: Callable[[], object], others: Callable[[], object] = lambda: None) -> None:
        """Task: collect and trim when no session has run for `IDLE` seconds, once after each burst; until cancelled.

        Args:
            busy: gives what is true while a session runs. The end of that one begins the wait again.
            others: has other processes do the same.
        """
        while True:
            while trio.current_time() < self._idle_at:
                with trio.move_on_at(self._idle_at) as self._sleep:
                    await trio.sleep_forever()
            self._idle_at = math.inf
            if not busy():
                others()
                await self._run(self.collect_and_return)

    def collect_and_return(self) -> None:
        """Do both now. Blocks for tens of milliseconds, and stops every thread of Python for a part of them."""
        self._collect()
        self._return()

    def _return(self) -> None:
        if self._trim is not None:
            self._trim(0)
