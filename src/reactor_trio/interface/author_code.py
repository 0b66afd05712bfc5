"""What is known of author code while it gives the runtime something: its file and line, and whether it can await."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from reactor_trio.errors import OutputError, ReactorError

T = TypeVar("T")

#: packages whose frames lie between author code and this one; beyond a loop's frames there is no author's line
_LOOPS = ("trio", "anyio", "outcome")


class _Thread(threading.local):
    #: which plain method of a model makes a step now; empty: none
    plain_step = ""


_thread = _Thread()


class NamesPlace:
    """A block in which an `OutputError` is given the author's line that `place` says; by default the one that called."""

    def __init__(self, place: Callable[[], str] | None = None) -> None:
        self._place = place or calling_line

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None) -> None:
        if isinstance(error, OutputError):
            error.name_place(self._place())


def plain_step(function: Callable[..., T], *args: Any, method: str = "inference") -> T:
    """`function(*args)`, which runs code of that method of a model unless it is async."""
    _thread.plain_step = method
    try:
        return function(*args)
    finally:
        _thread.plain_step = ""


def refuse_in_plain_step(call: str) -> None:
    """Raise ReactorError if the calling code makes a step and is not async: what it calls would never be awaited.

    A loop may call it within the step, as `nursery.start_soon(self.send, note)` does: it awaits what it gets.
    """
    if (method := _thread.plain_step) and not _loop_calls():
        remedy = f"make it `async def {method}` and write `await {call}`"
        if method == "inference" and "emit" in call:
            remedy += ", or yield the output"
        raise ReactorError(f"{call} must be awaited, which `def {method}` cannot: {remedy}")


def _loop_calls() -> bool:
    """Whether a loop's frame lies between the calling frames and the step that a plain method makes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not plain_step.__code__:
        if _package(frame) in _LOOPS:
            return True
        frame = frame.f_back
    return False


def calling_line() -> str:
    """`file:line` of the nearest calling frame that is not this package's; empty if a loop's frames come first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) == __package__.partition(".")[0]:
        frame = frame.f_back
    return "" if frame is None or _package(frame) in _LOOPS else _line(frame)


def yielding_line(steps: Generator[Any, None, None] | AsyncGenerator[Any, None]) -> str:
    """`file:line` of the `yield` at which a generator has stopped, also in one that it yields from."""
    if not isinstance(steps, Generator):
        return _line(getattr(steps, "ag_frame", None))
    while isinstance(inner := _inner(steps), Generator):
        steps = inner
    return _line(getattr(steps, "gi_frame", None))


def defining_line(function: Callable[..., Any]) -> str:
    """`file:line` of the function's definition."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _inner(steps: Generator[Any, None, None]) -> object:
    frame: FrameType | None = getattr(steps, "gi_frame", None)
    if frame is not None and _package(frame) == "torch":  # `@torch.no_grad()` on the author's generator
        return frame.f_locals.get("gen")
    return getattr(steps, "gi_yieldfrom", None)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line(frame: FrameType | None) -> str:
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
