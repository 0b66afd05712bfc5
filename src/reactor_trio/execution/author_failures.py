"""What an exception of author code means: that the model ends, that a session unwinds, or a failure of one session.

Some failures are no `Exception`: asyncio's `CancelledError`, and the panic of a library that is written in Rust. Each is a
failure like a ValueError. Only what ends a program ends the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import CommandError
from reactor_trio.lost_part import ModelPartLost
from reactor_trio.plain_text import sendable

#: no program goes on after them
_ENDINGS = (SystemExit, KeyboardInterrupt, ModelPartLost)
#: types of torch: an error of a CUDA context is permanent, and a process that ran out of memory may still hold most of it
_FATAL = ("AcceleratorError", "OutOfMemoryError")
#: they unwind code that is over; who began that knows
_UNWINDING = (trio.Cancelled, SessionOver, GeneratorExit)
#: where a client's user may see more, who may be the author
_SEE_LOG = "the server's log shows the line"


def ends_model(error: BaseException) -> bool:
    """Whether the model ends by this exception; a group does if it has one that does."""
    return _has(error, _ENDINGS)


def ends_process(error: BaseException) -> bool:
    """Whether the model cannot go on after this exception: it ends any program, or its device is lost.

    A device is lost also if the author has raised another exception from that of the device, or a nursery has grouped it.
    """
    return ends_model(error) or any(map(_loses_device, _with_causes(error)))


def is_failure(error: BaseException) -> bool:
    """Whether this exception, or each of a group, is a failure of what raised it, and of nothing beyond."""
    return not _has(error, (*_ENDINGS, *_UNWINDING))


def is_cancelled(error: BaseException) -> bool:
    """Whether this exception is a cancellation, or one of a group is: beside it, a group has what the cleanup has raised."""
    return _has(error, (trio.Cancelled,))


def words_for_clients(raised: BaseException | str, hook: str, debug: bool) -> str:
    """Return what a client reads of the model's failure: the hook that raised, and under `debug` the exception. Maybe ""."""
    text = raised if isinstance(raised, str) else f"{type(raised).__name__}: {sendable(raised)}"
    if hook:
        return sendable(f"{hook} raised {text}") if debug else f"the model failed in its hook {hook}; {_SEE_LOG}"
    return sendable(text) if debug else ""


def without_cancellation(error: BaseException) -> BaseException:
    """The exception without the `Cancelled` that was being handled when it was raised: the session's end is no cause."""
    if isinstance(error.__context__, trio.Cancelled):
        error.__context__ = None
    return error


def each_its_own(results: Sequence[Any]) -> list[Any]:
    """The results of several sessions. If one exception is the result of more than one, each gets an object of its own.

    A session adds to the traceback of its exception, which then keeps that session's frames.
    """
    own: list[Any] = []
    for result in results:
        shared = isinstance(result, BaseException) and any(result is other for other in own)
        own.append(_another(result) if shared else result)
    return own


def _another(error: BaseException) -> BaseException:
    """An exception like this one, made without code of its class, which may expect other arguments than it keeps."""
    kind = type(error)
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    other: BaseException = RuntimeError(f"{kind.__name__}: {sendable(error)}")
    with suppress(Exception):
        made = kind.__new__(kind, *error.args)
        builtin.__init__(made, *error.args)
        other = made
    vars(other).update(vars(error))
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other.with_traceback(error.__traceback__)


def _loses_device(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ in _FATAL or "CUDA error" in sendable(error)


def _with_causes(error: BaseException) -> list[BaseException]:
    """The exception, those that it groups, and those that they were raised from. An exception may be its own cause.

    What a CommandError was raised from does not count: the author has handled it, and this is the answer.
    """
    found: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or any(each is other for other in found):
            continue
        found.append(each)
        if not isinstance(each, CommandError):
            pending.append(each.__cause__)
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
    return found


def _has(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    return error.subgroup(kinds) is not None if isinstance(error, BaseExceptionGroup) else isinstance(error, kinds)
