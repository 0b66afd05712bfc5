"""Facts about author code that calls the runtime: its file and line for error messages, and whether it can await."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from types import CodeType, CoroutineType, FrameType, TracebackType
from typing import Any, TypeVar

from reactor_trio.errors import ERRORS_PAGE, DeclarationError, OutputError, ReactorError

T = TypeVar("T")
F = TypeVar("F", bound=Any)

#: Packages of event loops. If one of their frames called this package, no line of the author did.
_LOOP_PACKAGES = ("trio", "anyio", "outcome")
#: flags of code that may `await`
AWAITS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Thread(threading.local):
    """Of this thread: the name of the plain (not async) method of a model that runs a step on it now; empty: none."""

    plain_method = ""


this_thread = _Thread()

#: the code of the functions that call plain methods
_callers: set[CodeType] = set()


class NamesLocation:
    """Context manager that appends the author's line to an `OutputError`: the result of `find`, by default the caller's."""

    def __init__(self, find: Callable[[], str] | None = None) -> None:
        self._find = find or calling_line

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None) -> None:
        if isinstance(error, OutputError):
            error.name_location(self._find())


def awaited_as(call: str) -> Callable[[F], F]:
    """Name the coroutines of an async function that emits by the `call` that makes them, once and not in each frame.

    Python's warning that one was not awaited names it; see `awaited_call` for one that also names the author's place.
    """

    def name(function: F) -> F:
        said = f"{call} is not awaited, so nothing is shown: write `await {call}`"
        function.__qualname__ = f"{said} ({ERRORS_PAGE}#not-awaited)"
        return function

    return name


def awaited_call(call: str, so: str, function: Callable[..., F], *args: object) -> F:
    """Return the coroutine `function(*args)` of a `call` that the author has to await; `so` is what follows if it is not.

    It is named for Python's warning that a coroutine was not awaited, which may come later, at another line. The call may be
    right in a plain function, which may give the coroutine to whoever awaits it. Raises ReactorError in a plain step.
    """
    refuse_in_plain_step(call)
    coroutine = function(*args)
    frame = _calling_frame()
    if isinstance(coroutine, CoroutineType) and frame is not None:
        remedy, code = f"write `await {call}`", frame.f_code
        if not code.co_flags & AWAITS and code.co_name.isidentifier():
            remedy = f"make it `async def {code.co_name}` and {remedy}"
        coroutine.__qualname__ = f"{call} is not awaited, so {so}: {remedy} (at {_line(frame)}) ({ERRORS_PAGE}#not-awaited)"
    return coroutine


def calls_plain_methods(function: F) -> F:
    """Mark a function that sets `this_thread.plain_method` while it calls such a method."""
    _callers.add(function.__code__)
    return function


@calls_plain_methods
def plain_step(function: Callable[..., T], *args: Any, method: str = "inference") -> T:
    """Call `function(*args)` and mark this thread as inside the model's plain `method` meanwhile."""
    this_thread.plain_method = method
    try:
        return function(*args)
    finally:
        this_thread.plain_method = ""


def refuse_in_plain_step(call: str) -> None:
    """Raise ReactorError if a plain method of a model makes this `call`: it cannot await the result.

    An event loop may make the call within the step, as in `nursery.start_soon(self.send, note)`, because it awaits the
    result.
    """
    if (method := this_thread.plain_method) and not _loop_calls():
        remedy = f"make it `async def {method}` and write `await {call}`"
        if method == "inference" and "emit" in call:
            remedy += ", or yield the output"
        if method == "generate":
            remedy = f"write `await {call}` in process_output"
        raise ReactorError(f"{call} must be awaited, which `def {method}` cannot: {remedy}")


def _loop_calls() -> bool:
    """Whether an event loop's frame lies on the stack between this call and the plain method's step."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _callers:
        if _package(frame) in _LOOP_PACKAGES:
            return True
        frame = frame.f_back
    return False


def calling_line() -> str:
    """Return `file:line` of the nearest calling frame outside this package; empty if an event loop made the call."""
    return _line(_calling_frame())


def _calling_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (_package(frame) == __package__.partition(".")[0] or _is_generated(frame.f_code)):
        frame = frame.f_back
    return None if frame is None or _package(frame) in _LOOP_PACKAGES else frame


def _is_generated(code: CodeType) -> bool:
    """Whether `@dataclass` has written this function: it has no line."""
    return code.co_name == "__init__" and code.co_filename == "<string>"


def yielding_line(steps: Generator[Any, None, None] | AsyncGenerator[Any, None]) -> str:
    """Return `file:line` of the `yield` at which a generator is suspended, also inside a `yield from`."""
    if not isinstance(steps, Generator):
        return _line(getattr(steps, "ag_frame", None))
    while isinstance(inner := _inner(steps), Generator):
        steps = inner
    return _line(getattr(steps, "gi_frame", None))


def defining_line(function: Callable[..., Any]) -> str:
    """Return `file:line` of the function's definition, without its decorators."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


@contextmanager
def declaring(function: Callable[..., Any]) -> Iterator[None]:
    """A block whose `DeclarationError` is about this method of the author: it has the method's line."""
    try:
        yield
    except DeclarationError as error:
        error.location = error.location or defining_line(function)
        raise


def _inner(steps: Generator[Any, None, None]) -> object:
    frame: FrameType | None = getattr(steps, "gi_frame", None)
    if frame is not None and _package(frame) == "torch":  # `@torch.no_grad()` wraps the author's generator in its own
        return frame.f_locals.get("gen")
    return getattr(steps, "gi_yieldfrom", None)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line(frame: FrameType | None) -> str:
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
