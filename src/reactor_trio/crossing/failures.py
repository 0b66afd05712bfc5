"""Exceptions on their way from one process to another."""

from __future__ import annotations

import traceback

import msgspec

from reactor_trio.errors import ReactorError
from reactor_trio.plain_text import sendable


class ModelCodeError(ReactorError):
    """Code in another process raised an exception, of a model's mostly. Its class has the name of that exception's type."""

    anchor = "model-failed"
    _of_author = False


class _Traceback(Exception):
    """The cause of a `ModelCodeError`: with it, a log shows the traceback of the other process."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An exception as a part of a message."""

    kind: str
    text: str
    traceback: str
    anchor: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception for another process."""
        anchor = error.anchor if isinstance(error, ReactorError) else ""
        return cls(type(error).__name__, sendable(error), sendable("".join(traceback.format_exception(error))), anchor)

    def error(self) -> ModelCodeError:
        """Make an exception of another process's description."""
        error: ModelCodeError = type(self.kind, (ModelCodeError,), {"__module__": ModelCodeError.__module__})(
            self.text, anchor=self.anchor or None
        )
        error.__cause__ = _Traceback(self.traceback)
        return error
