"""`bounded_prints`: a process that is ours shows only so much of what author code prints, and says what it has left out.

A step that prints a tensor floods the terminal, fills the disk of a service's log, and waits for both. Lines of the log and
of the command line are not bounded: they have taken the streams before.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import trio

from reactor_trio.concurrency.author_tracebacks import place_of_caller
from reactor_trio.errors import ERRORS_PAGE

log = logging.getLogger("reactor_trio.model")

#: of each stream, a second
LINES = 100
CHARACTERS = 1 << 16
#: Seconds between two lines of the log that say so.
PAUSE = 10.0


class BoundedStream:
    """Stands in for a text stream: it writes what its allowance takes, and counts the lines that it leaves out. Thread-safe.

    Args:
        used: called when something is written for the first time since `refill`, in the thread that writes.
    """

    def __init__(self, stream: TextIO, used: Callable[[], object]) -> None:
        self._stream, self._used = stream, used
        self._lock = threading.Lock()
        self._full = True
        self._lines, self._characters, self._left_out = LINES, CHARACTERS, 0
        #: the line of the author whose text was first left out
        self.place = ""

    def write(self, text: str) -> int:
        """Write the text as far as there is room for it."""
        with self._lock:
            first, self._full = self._full, False
            shown = text[: self._characters] if self._lines > 0 else ""
            lines = text.count("\n")
            self._lines -= lines
            self._characters -= len(shown)
            if len(shown) < len(text):
                self._left_out += lines
                self.place = self.place or place_of_caller()
                shown = shown and f"{shown} ...\n"
        if first:
            self._used()
        if shown:
            self._stream.write(shown)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def refill(self) -> int:
        """Begin a new second; returns how many lines the last one has left out."""
        with self._lock:
            left_out, self._full = self._left_out, True
            self._lines, self._characters, self._left_out = LINES, CHARACTERS, 0
        return left_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def bounded_prints() -> Iterator[None]:
    """Bound what is written to `sys.stdout` and `sys.stderr` during the block, on any thread; on the loop of a server."""
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    refills = _Refills()
    bounded = {name: BoundedStream(stream, refills.wanted) for name, stream in before.items()}
    # No task of a nursery: that would make a group of what the block raises.
    trio.lowlevel.spawn_system_task(refills.run, list(bounded.values()))
    vars(sys).update(bounded)
    try:
        yield
    finally:
        for name, stream in before.items():
            if getattr(sys, name) is bounded[name]:
                setattr(sys, name, stream)
        refills.scope.cancel()


class _Refills:
    """Refills streams a second after they are used; says what they have left out."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._token = trio.lowlevel.current_trio_token()
        self._used = trio.Event()

    def wanted(self) -> None:
        """Have the streams refilled in a second. For any thread."""
        with suppress(trio.RunFinishedError):  # a thread of the author's that outlives the loop
            self._token.run_sync_soon(self._wake)

    def _wake(self) -> None:
        self._used.set()

    async def run(self, streams: list[BoundedStream]) -> None:
        """Task, until `scope` is cancelled."""
        left_out, said_at = 0, -math.inf
        with self.scope:
            while True:
                await self._used.wait()
                await trio.sleep(1)
                self._used = trio.Event()
                left_out += sum(stream.refill() for stream in streams)
                if left_out and (now := trio.current_time()) >= said_at + PAUSE:
                    _say(left_out, streams)
                    left_out, said_at = 0, now
        left_out += sum(stream.refill() for stream in streams)
        if left_out:
            _say(left_out, streams)


def _say(left_out: int, streams: list[BoundedStream]) -> None:
    where = next((f" at {stream.place}" for stream in streams if stream.place), "")
    log.warning(
        "the model prints too much%s: %d lines are left out, since %d a second are shown. Print less often, and no tensors "
        "in a step (%s#prints)", where, left_out, LINES, ERRORS_PAGE,
    )  # fmt: skip
    for stream in streams:
        stream.place = ""
