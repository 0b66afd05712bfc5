"""Output of the command line: plain lines on stdout, one line on stderr for an error, and a live line on a terminal."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import trio

from reactor_trio.errors import ERRORS_PAGE, DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.plain_text import one_line
from reactor_trio.standard_streams import lost

OK, FAILED, USAGE, INTERNAL = 0, 1, 2, 70
#: the exit code that a shell gives a program which writes to a pipe that its reader has closed
READER_LEFT = 128 + signal.SIGPIPE
#: the first line of a server, whose port answers before the model is loaded
WILL_BE_READY = "{name} will be ready at {url} - its page shows the load"
#: characters of the bar that shows how far a load is
BAR = 24


class UsageError(ReactorError):
    """The command line asks for something impossible; the message says what to do instead."""

    anchor = "command-line"


class ReaderLeft(ReactorError):
    """The reader of standard output has enough, as `head` has. The command ends without a word."""


class Terminal:
    """Standard output and standard error of one command.

    What cannot be written is dropped silently: the reader has left (`reactor run | head -1`), the disk is full. `give` alone
    is for output that a command must not lose.

    Args:
        out: None means `sys.stdout`.
        err: None means `sys.stderr`.
        report: also called with each line of `fail`.

    Attributes:
        out: the stream of standard output.
    """

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, report: Callable[[str], object] | None = None
    ) -> None:
        self._report = report or (lambda _line: None)
        self.out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._live_width = 0
        self._progress: tuple[float | None, str] = None, ""

    @property
    def interactive(self) -> bool:
        """Whether standard output is a terminal."""
        return self.out.isatty()

    @property
    def draws(self) -> bool:
        """Whether standard output is a terminal that can show the live view: UTF-8, and not dumb."""
        utf8 = (self.out.encoding or "").lower().replace("-", "") == "utf8"
        return self.interactive and utf8 and os.environ.get("TERM", "dumb") != "dumb"

    def say(self, line: str) -> None:
        """Print one line on stdout and flush it. It replaces the live line, if there is one."""
        self.erase_live()
        self._write(self.out, f"{line}\n")

    def give(self, text: str) -> None:
        """Print on stdout what the command was asked for.

        Raises ReaderLeft if the reader of stdout has left, and UsageError if it cannot be written for another reason.
        """
        error = self._write(self.out, text)
        if error is None:
            return
        if error.errno == errno.EPIPE:
            raise ReaderLeft from error
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        raise UsageError(f"cannot write to standard output: {why}") from error

    def erase_live(self) -> None:
        """Remove the live line, before something else is written to the terminal. For any thread."""
        width, self._live_width = self._live_width, 0
        if width:
            self._write(self.out, "\r" + " " * width + "\r")

    def live(self, text: str) -> None:
        """Show `text` in the live line. For terminals only."""
        self._write(self.out, "\r" + text.ljust(self._live_width))
        self._live_width = len(text)

    def fail(self, line: str) -> None:
        """Print one error line on stderr."""
        if self._live_width:
            self._write(self.out, "\n")
            self._live_width = 0
        self._write(self._err, f"reactor: {line}\n")
        self._report(line)

    def progress(self, fraction: float | None, text: str) -> None:
        """Take how far the load is; `loading` shows it."""
        self._progress = fraction, text

    @asynccontextmanager
    async def loading(self, name: str, url: str = "") -> AsyncIterator[None]:
        """Show that a model loads during this block: a bar and a count of seconds on a terminal, elsewhere two lines.

        `url` is where a page shows it, too.
        """
        begin = trio.current_time()
        if url:
            self.say(WILL_BE_READY.format(name=name, url=url))
        async with trio.open_nursery() as nursery:
            if self.interactive:
                nursery.start_soon(self._count_seconds, name, begin)
            else:
                self.say(f"loading {name} ...")
            yield
            nursery.cancel_scope.cancel()
        self.say(f"loaded {name} in {trio.current_time() - begin:.1f} s")

    async def _count_seconds(self, name: str, begin: float) -> None:
        while True:
            seconds = f"... {trio.current_time() - begin:.0f} s"
            fraction, text = self._progress
            bar = "" if fraction is None else f"{self._bar(fraction)} {fraction:.0%} "
            room = shutil.get_terminal_size().columns - len(f"loading {name} {bar}  {seconds}")
            self.live(" ".join(filter(None, ["loading", name, bar.rstrip(), text[: max(room, 0)].rstrip(), seconds])))
            await trio.sleep(1)

    def _bar(self, fraction: float) -> str:
        full, rest = ("█", "░") if self.draws else ("#", "-")
        return (round(fraction * BAR) * full).ljust(BAR, rest)

    def explain(self, error: BaseException, *, debug: bool = False, place: Path | None = None) -> int:
        """Print an error in one line, after its traceback under `debug`, and return the exit code for it.

        Of an exception group, an error of the user or of the model is printed first; otherwise all errors are, as a failure
        of the runtime. `place` is the project's: an error of the model names its line in that folder.

        Raises KeyboardInterrupt if the group has one: Ctrl-C may have come in a nursery.
        """
        if debug:
            self._write(self._err, "".join(traceback.format_exception(error)))
        errors = list(leaves(error))
        if any(isinstance(leaf, KeyboardInterrupt) for leaf in errors):
            raise KeyboardInterrupt from error
        for kinds, code in (((ManifestError, DeclarationError, UsageError), USAGE), ((ModelFailed,), FAILED)):
            for leaf in errors:
                if isinstance(leaf, kinds):
                    self.fail(f"{_model_failure(leaf, place) if code == FAILED else one_line(str(leaf))} ({_link(leaf)})")
                    return code
        texts = "; ".join(f"{type(leaf).__name__}: {one_line(str(leaf))}" for leaf in errors)
        self.fail(f"the runtime itself failed: {texts}" + ("" if debug else " (--debug shows the traceback)")
                  + f" ({ERRORS_PAGE}#runtime-failed)")  # fmt: skip
        return INTERNAL

    @staticmethod
    def _write(stream: TextIO, text: str) -> OSError | None:
        """Write and flush; returns why something is lost, if it is."""
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            return error
        return lost(stream)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in nested exception groups. An error that is no group is its own only leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _model_failure(error: BaseException, place: Path | None) -> str:
    from reactor_trio.configuration.manifest import project_folder
    from reactor_trio.configuration.model_import import author_location, missing_module_advice

    line = one_line(str(error)) or "the model failed"
    cause = error.__cause__
    if cause is None:
        return line
    text = one_line(str(cause))
    named = type(cause).__name__ in line or isinstance(cause, DeclarationError)  # its text needs no class name
    if not named or text not in line:
        line += f": {type(cause).__name__}: {text}"
    if place is None:
        return line
    folder = project_folder(place)
    line += missing_module_advice(cause, folder)
    where = author_location(cause, folder) or (cause.__cause__ and author_location(cause.__cause__, folder))
    return f"{line} ({where})" if where and f"(at {folder / where})" not in line else line


def _link(error: ReactorError) -> str:
    """Where the remedy is: of the mistake that made the model fail, if it is one that we know."""
    cause = error.__cause__
    return cause.link if isinstance(cause, ReactorError) else error.link
