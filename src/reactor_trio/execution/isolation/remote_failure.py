"""An exception of author code on its way between two processes: its words, its traceback, and its type by name."""

from __future__ import annotations

import traceback

from reactor_trio.errors import ReactorError
from reactor_trio.execution.isolation.ipc_messages import Failure


class ModelCodeError(ReactorError):
    """Model code in another process raised; the class of an instance has the name of what it raised there."""


class _Traceback(Exception):
    """Shown as the cause, so that a log has the lines of the other process."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def failure_of(error: BaseException) -> Failure:
    """What is told of `error`."""
    lines = traceback.format_exception(error)
    return Failure(type(error).__name__, str(error), "".join(lines), isinstance(error, Exception))


def ends_process(error: BaseException) -> bool:
    """Whether it leaves a model that cannot go on: no program survives it, or its device does not."""
    if not isinstance(error, Exception):
        return True
    return type(error).__name__ in _FATAL or isinstance(error, MemoryError) or "CUDA error" in str(error)


#: of torch: an error of a CUDA context stays for good, and what ran out of memory may hold most of it
_FATAL = ("AcceleratorError", "OutOfMemoryError")


def error_of(failure: Failure) -> ModelCodeError:
    """The same on the other side."""
    kind = type(failure.kind, (ModelCodeError,), {"__module__": ModelCodeError.__module__})
    error: ModelCodeError = kind(failure.text)
    error.__cause__ = _Traceback(failure.traceback)
    return error
