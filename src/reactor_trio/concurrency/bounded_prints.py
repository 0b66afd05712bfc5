"""`bounded_prints`: a process that is ours shows only so much of what author code prints, and says what it has left out.

A step that prints a tensor floods the terminal, fills the disk of a service's log, and waits for both. Lines of the log and
of the command line are not bounded: they have taken the streams before.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TextIO

import trio

from reactor_trio.concurrency.author_tracebacks import place_of_caller
from reactor_trio.errors import ERRORS_PAGE

log = logging.getLogger("reactor_trio.model")

#: of each stream, a second
LINES = 100
CHARACTERS = 8000
#: While something is left out, the allowance is that of so many seconds: the warning stays the last thing on the screen.
PERIOD = 5.0


class LeftOut(NamedTuple):
    """How much of what was written is not shown."""

    lines: int = 0
    characters: int = 0

    def __add__(self, other: Any) -> LeftOut:
        return LeftOut(self.lines + other.lines, self.characters + other.characters)


class BoundedStream:
    """Stands in for a text stream: it writes what its allowance takes, and counts what it leaves out. Thread-safe.

    Args:
        used: called when something is written for the first time since `refill`, in the thread that writes.
    """

    def __init__(self, stream: TextIO, used: Callable[[], object]) -> None:
        self._stream, self._used = stream, used
        self._lock = threading.Lock()
        self._full, self._in_line = True, False
        self._lines, self._characters, self._left_out = LINES, CHARACTERS, LeftOut()
        #: the line of the author whose text was first left out
        self.place = ""

    def write(self, text: str) -> int:
        """Write the text as far as there is room for it; a line that is cut ends with a mark."""
        with self._lock:
            first, self._full = self._full, False
            shown = self._room_for(text)
            if shown:
                self._in_line = not shown.endswith("\n")
            self._lines -= shown.count("\n")
            self._characters -= len(shown)
            if len(shown) < len(text):
                # What comes after it is left out too, until `refill`: a text is not shown with a hole in it.
                self._lines = self._characters = 0
                self._left_out += LeftOut(text.count("\n", len(shown)), len(text) - len(shown))
                self.place = self.place or place_of_caller()
                if shown or self._in_line:
                    shown += " ...\n"
                self._in_line = False
        if first:
            self._used()
        if shown:
            self._stream.write(shown)
        return len(text)

    def _room_for(self, text: str) -> str:
        if self._lines <= 0:
            return ""
        shown = text[: self._characters]
        if shown.count("\n") > self._lines:
            shown = "\n".join(shown.split("\n")[: self._lines]) + "\n"
        return shown

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def refill(self) -> None:
        """Allow as much again."""
        with self._lock:
            self._full, self._lines, self._characters = True, LINES, CHARACTERS

    def left_out(self) -> LeftOut:
        """What has been left out since the last call."""
        with self._lock:
            left_out, self._left_out = self._left_out, LeftOut()
        return left_out

    def end_line(self) -> None:
        """Break the line, if its end is not written yet: what another writes begins on a line of its own."""
        with self._lock:
            in_line, self._in_line = self._in_line, False
        if in_line:
            self._stream.write("\n")
            self._stream.flush()

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
        with self.scope:
            while True:
                await self._used.wait()
                await trio.sleep(1)
                while _said(streams):
                    await trio.sleep(PERIOD - 1)
                    _refill(streams)
                    await trio.sleep(1)
                self._used = trio.Event()
                _refill(streams)
        _said(streams)


def _refill(streams: list[BoundedStream]) -> None:
    for stream in streams:
        stream.refill()


def _said(streams: list[BoundedStream]) -> bool:
    """Say what has been left out since the last call; whether something has."""
    left_out = sum((stream.left_out() for stream in streams), LeftOut())
    if not left_out.characters:
        return False
    where = next((f" at {stream.place}" for stream in streams if stream.place), "")
    for stream in streams:
        stream.end_line()
        stream.place = ""
    log.warning(
        "the model prints too much%s: %d lines, %d characters are left out, since %d lines or %d characters a second are "
        "shown, and while it goes on, in %g s. Print less often, and no tensors in a step (%s#prints)",
        where, *left_out, LINES, CHARACTERS, PERIOD, ERRORS_PAGE,
    )  # fmt: skip
    return True
