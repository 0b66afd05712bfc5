"""An exception of author code on its way between two processes: the name of its type, its text and its traceback."""

from __future__ import annotations

import traceback

from reactor_trio.errors import ReactorError
from reactor_trio.execution.isolation.ipc_messages import Failure


class ModelCodeError(ReactorError):
    """Model code in another process raised an exception. An instance's class has the name of that exception's type."""


class _Traceback(Exception):
    """The cause of a `ModelCodeError`: with it, a log shows the traceback of the other process."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


#: types of torch: an error of a CUDA context is permanent, and a process that ran out of memory may still hold most of it
_FATAL = ("AcceleratorError", "OutOfMemoryError")


def failure_of(error: BaseException) -> Failure:
    """Describe an exception for another process."""
    return Failure(type(error).__name__, str(error), "".join(traceback.format_exception(error)))


def error_of(failure: Failure) -> ModelCodeError:
    """Make an exception of another process's description."""
    kind = type(failure.kind, (ModelCodeError,), {"__module__": ModelCodeError.__module__})
    error: ModelCodeError = kind(failure.text)
    error.__cause__ = _Traceback(failure.traceback)
    return error


def ends_process(error: BaseException) -> bool:
    """Whether the model cannot go on after this exception: it ends any program, or its device is lost."""
    if not isinstance(error, Exception):
        return True
    return type(error).__name__ in _FATAL or isinstance(error, MemoryError) or "CUDA error" in str(error)
