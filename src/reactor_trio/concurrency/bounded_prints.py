"""`bounded_prints`: a process that is ours shows only so much of what author code prints and logs, and counts the rest.

A step that prints a tensor floods the terminal, fills the disk of a service's log, and waits for both. Our own log and the
lines of the command line are not bounded. Each process bounds its own author code, so the server does not bound the log
lines of a model's process again.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TextIO

import trio

from reactor_trio.concurrency.author_tracebacks import place_of_caller
from reactor_trio.errors import ERRORS_PAGE

log = logging.getLogger("reactor_trio.model")

#: of each stream, of the author's log, and of its errors, a second
LINES = 100
CHARACTERS = 8000
#: While something is left out, the allowance is that of so many seconds: the warning stays the last thing on the screen.
PERIOD = 5.0
#: characters of a line, on average, from which on a tensor is likely
LONG_LINE = 40


class LeftOut(NamedTuple):
    """How much of what was written is not shown."""

    lines: int = 0
    characters: int = 0

    def __add__(self, other: Any) -> LeftOut:
        return LeftOut(self.lines + other.lines, self.characters + other.characters)

    def __str__(self) -> str:
        characters = f"{self.characters} characters"
        return f"{self.lines} lines, {characters}" if self.lines else characters


class Allowance:
    """What may be shown until `refill`. It counts what is left out. Thread-safe.

    Args:
        used: called when something is written for the first time since `refill`, in the thread that writes.

    Attributes:
        place: the line of the author whose text was first left out since `left_out`.
    """

    def __init__(self, used: Callable[[], object]) -> None:
        self._used = used
        self._lock = threading.Lock()
        self._full = True
        self._lines, self._characters, self._left_out = LINES, CHARACTERS, LeftOut()
        self.place = ""

    def takes(self, text: str, place: str) -> bool:
        """Return whether there is room for a text, which is then shown whole. Otherwise count it as left out."""
        with self._lock:
            first, self._full = self._full, False
            room = self._lines > 0 and self._characters > 0
            if room:
                self._lines -= text.count("\n")
                self._characters -= len(text)
            else:
                self._left_out += LeftOut(text.count("\n"), len(text))
                self.place = self.place or place
        if first:
            self._used()
        return room

    def refill(self) -> None:
        """Allow as much again."""
        with self._lock:
            self._full, self._lines, self._characters = True, LINES, CHARACTERS

    def left_out(self) -> LeftOut:
        """Return what has been left out since the last call."""
        with self._lock:
            left_out, self._left_out = self._left_out, LeftOut()
        return left_out

    def end_line(self) -> None:
        """Break the line, if its end is not written yet."""


class BoundedStream(Allowance):
    """Stands in for a text stream: it writes what its allowance takes, and counts what it leaves out.

    Args:
        used: see `Allowance`.
        before_line: called before a line is shown, in the thread that writes.
    """

    def __init__(self, stream: TextIO, used: Callable[[], object], before_line: Callable[[], object]) -> None:
        super().__init__(used)
        self._stream, self._before_line = stream, before_line
        self._in_line = False

    def write(self, text: str) -> int:
        """Write the text as far as there is room for it; a line that is cut ends with a mark."""
        with self._lock:
            first, self._full = self._full, False
            begins = not self._in_line
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
            if begins:
                self._before_line()
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

    def end_line(self) -> None:
        """Break the line, if its end is not written yet: what another writes begins on a line of its own."""
        with self._lock:
            in_line, self._in_line = self._in_line, False
        if in_line:
            self._stream.write("\n")
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _AuthorLog(logging.Filter):
    """Keeps the author's records, and those of libraries, within an allowance. A flood of lower levels hides no error."""

    def __init__(self, used: Callable[[], object]) -> None:
        super().__init__()
        self.lines, self.errors = Allowance(used), Allowance(used)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a handler may handle the record."""
        if record.name.partition(".")[0] in ("reactor_trio", "py"):  # our own, and Python's warnings
            return True
        if not record.pathname:  # of a model's process, which has bounded it
            return True
        try:
            text = record.getMessage() + "\n"
            if record.exc_info and record.exc_info[1]:
                text += logging.Formatter().formatException(record.exc_info) + "\n"
        except Exception:  # the handler reports what it cannot format
            return True
        allowance = self.errors if record.levelno >= logging.ERROR else self.lines
        return allowance.takes(text, f"{record.pathname}:{record.lineno}")


@contextmanager
def bounded_prints(before_line: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Bound what author code prints and logs during the block, on any thread; on the loop of a server.

    That is what is written to `sys.stdout` and `sys.stderr`, and to the handlers that the log has as the block begins.
    `before_line` is called before a printed line is shown, in the thread that prints.
    """
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    refills = _Refills()
    bounded = {name: BoundedStream(stream, refills.wanted, before_line) for name, stream in before.items()}
    author_log, handlers = _AuthorLog(refills.wanted), logging.root.handlers[:]
    allowances: list[Allowance] = [*bounded.values(), author_log.lines, author_log.errors]
    # No task of a nursery: that would make a group of what the block raises.
    trio.lowlevel.spawn_system_task(refills.run, allowances)
    vars(sys).update(bounded)
    for handler in handlers:
        handler.addFilter(author_log)
    try:
        yield
    finally:
        for name, stream in before.items():
            if getattr(sys, name) is bounded[name]:
                setattr(sys, name, stream)
        for handler in handlers:
            handler.removeFilter(author_log)
        refills.scope.cancel()
        _report(allowances)  # not in the task, which may be cancelled first


class _Refills:
    """Refills allowances a second after they are used, and reports what they have left out."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._token = trio.lowlevel.current_trio_token()
        self._used = trio.Event()

    def wanted(self) -> None:
        """Have the allowances refilled in a second. For any thread."""
        with suppress(trio.RunFinishedError):  # a thread of the author's that outlives the loop
            self._token.run_sync_soon(self._wake)

    def _wake(self) -> None:
        self._used.set()

    async def run(self, allowances: Iterable[Allowance]) -> None:
        """Task, until `scope` is cancelled."""
        with self.scope:
            while True:
                await self._used.wait()
                await trio.sleep(1)
                while _report(allowances):
                    await trio.sleep(PERIOD - 1)
                    _refill(allowances)
                    await trio.sleep(1)
                self._used = trio.Event()
                _refill(allowances)


def _refill(allowances: Iterable[Allowance]) -> None:
    for allowance in allowances:
        allowance.refill()


def _report(allowances: Iterable[Allowance]) -> bool:
    """Log what has been left out since the last call, and return whether something has."""
    left_out = sum((allowance.left_out() for allowance in allowances), LeftOut())
    if not left_out.characters:
        return False
    where = next((f" at {allowance.place}" for allowance in allowances if allowance.place), "")
    for allowance in allowances:
        allowance.end_line()
        allowance.place = ""
    tensors = ", and no tensors in a step" if left_out.characters > LONG_LINE * left_out.lines else ""
    log.warning(
        "the model prints too much%s: %s are left out, since %d lines or %d characters a second are shown, and while it "
        "goes on, in %g s. Print less often%s (%s#prints)", where, left_out, LINES, CHARACTERS, PERIOD, tensors, ERRORS_PAGE,
    )  # fmt: skip
    return True
