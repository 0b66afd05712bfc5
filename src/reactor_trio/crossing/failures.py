"""Exceptions on their way from one process to another."""

from __future__ import annotations

import traceback

import msgspec

from reactor_trio.concurrency.author_tracebacks import Line, lines_of, made_of, place_of
from reactor_trio.errors import ReactorError
from reactor_trio.plain_text import sendable

#: a longer traceback, of an endless recursion, goes as text
MOST_LINES = 60


class ModelCodeError(ReactorError):
    """Code in another process raised an exception, of a model's mostly. Its class has the name of that exception's type."""

    anchor = "model-failed"
    #: the author's `file:line`; empty if that is not known
    location = ""
    _of_author = False


class _Traceback(Exception):
    """The cause of a `ModelCodeError` that has causes or a group: with it, a log shows the other process's traceback."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An exception as a part of a message."""

    kind: str
    text: str
    traceback: str
    anchor: str = ""
    notes: tuple[str, ...] = ()
    #: the author's last line, `file:line`
    place: str = ""
    #: those of the traceback, if they are all that it shows
    lines: tuple[tuple[str, int, str], ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception for another process."""
        anchor = error.anchor if isinstance(error, ReactorError) else ""
        whole = sendable("".join(traceback.format_exception(error)))
        notes = tuple(sendable(note) for note in getattr(error, "__notes__", ()))
        context = None if error.__suppress_context__ else error.__context__
        alone = error.__cause__ is None and context is None and not isinstance(error, BaseExceptionGroup)
        lines = [(sendable(file), number, name) for file, number, name in lines_of(error)] if alone else []
        return cls(
            type(error).__name__, sendable(error), whole, anchor, notes, sendable(place_of(error)),
            tuple(lines) if len(lines) <= MOST_LINES else (),
        )  # fmt: skip

    def error(self) -> ModelCodeError:
        """Make an exception of another process's description, which looks in a log as it does there."""
        error: ModelCodeError = type(self.kind, (ModelCodeError,), {"__module__": "builtins"})(
            self.text, anchor=self.anchor or None
        )
        error.__notes__, error.location = list(self.notes), self.place
        if self.lines:
            return error.with_traceback(made_of(Line(*line) for line in self.lines))
        error.__cause__ = _Traceback(self.traceback)
        return error
