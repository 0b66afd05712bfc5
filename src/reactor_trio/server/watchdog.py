"""Ends a process that cannot work any more with exit code 70, so that its supervisor can start another.

There are two cases. The I/O loop has not run for `limit` seconds: it answers no ping and notices no client that leaves. Or
the server has drained and the process does not exit, because a step never returns: Python cannot end a thread.

A thread outside Trio watches with a real clock, since the loop whose clock everything else reads may have stopped. A C call
of a model that holds the GIL stops the watching thread as well; so only the second late beat in a row counts. Whether such a
call ever returns is for another process to watch (`lock_watch`), which gets a beat of this thread.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

import trio

from reactor_trio.concurrency.stacks import thread_stack
from reactor_trio.server.lock_watch import LOAD, LockWatch

#: exit code of a process whose runtime failed or hung (EX_SOFTWARE of sysexits.h)
EXIT_CODE = 70

_BEATS_PER_LIMIT = 4


def abandon_step(reason: str) -> None:
    """Print the reason and where the author's code is, and end the process at once; without such code as `end_process`."""
    stacks = "".join(thread_stack(thread) for thread in threading.enumerate() if thread.name == "reactor-model")
    if not stacks:
        end_process(reason)
    try:
        sys.stderr.write(f"reactor: {reason}. It is here:\n{stacks}")
        sys.stderr.flush()
    finally:
        os._exit(EXIT_CODE)


def end_process(reason: str) -> None:
    """Print the reason and the stack of each thread, and end the process at once."""
    try:
        sys.stderr.write(f"reactor: {reason}\n")
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        sys.stderr.flush()
    finally:  # whether or not somebody reads that
        os._exit(EXIT_CODE)


class Watchdog:
    """Watches one I/O loop from a thread.

    Args:
        limit: seconds without a beat that end the process.
        end, abandon: called with the reason; end the process, the latter because a step of the author's does not end.
        open_lock_watch: starts the process that watches for C code which keeps the GIL.
        running: returns what may keep the GIL now (`lock_watch.running`). Called in the watching thread.
    """

    def __init__(
        self, limit: float, end: Callable[[str], object] = end_process,
        open_lock_watch: Callable[[], LockWatch | None] = lambda: None, running: Callable[[], int] = lambda: LOAD,
        abandon: Callable[[str], object] = abandon_step,
    ) -> None:  # fmt: skip
        self._limit = limit
        self._end, self._abandon = end, abandon
        self._open_lock_watch = open_lock_watch
        self._lock_watch: LockWatch | None = None
        self._running = running
        self._stop = threading.Event()
        self._beat = time.monotonic()
        self._leave_by: tuple[float, str] | None = None

    async def run(self) -> None:
        """Beat for as long as this task runs; the thread ends with it."""
        thread = threading.Thread(target=self._watch, name="reactor-watchdog", daemon=True)
        self._lock_watch = self._open_lock_watch()
        self._beat = time.monotonic()
        thread.start()
        try:
            while True:
                self._beat = time.monotonic()
                await trio.sleep(self._limit / _BEATS_PER_LIMIT)
        finally:
            if self._leave_by is None:
                self._stop.set()
                if self._lock_watch is not None:
                    self._lock_watch.close()

    def say_running(self) -> None:
        """Tell the process that watches what may keep the GIL from now on. The thread says it at each beat."""
        if self._lock_watch is not None:
            self._lock_watch.beat(self._running())

    def expect_exit(self, seconds: float, reason: str) -> None:
        """End the process in `seconds` if it has not exited by then. The thread needs no beats from now on."""
        self._leave_by = (time.monotonic() + seconds, reason)

    def _watch(self) -> None:
        late = False
        while not self._stop.wait(self._limit / _BEATS_PER_LIMIT):
            self.say_running()
            now = time.monotonic()
            if self._leave_by is not None:
                if now > self._leave_by[0]:
                    self._abandon(self._leave_by[1])
                    return
                continue
            was_late, late = late, now - self._beat > self._limit
            if late and was_late:
                self._end(f"the I/O loop gave no sign of life for {now - self._beat:.1f} s")
                return
