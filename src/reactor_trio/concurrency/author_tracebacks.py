"""Tracebacks of exceptions of author code, as the author reads them: they begin at the author's line and end with it.

The runtime calls author code through many functions of its own. Their frames say nothing to the author, and stand first.
"""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import NamedTuple

from reactor_trio.concurrency.asyncio_guard import with_twin
from reactor_trio.concurrency.kept_errors import WHOLE_TRACEBACK
from reactor_trio.errors import ERRORS_PAGE, ModelFailed, OutputError, ReactorError
from reactor_trio.plain_text import sendable

#: packages that are no author's
_RUNTIME = ("reactor_trio", "trio", "outcome", "anyio")
#: what stands between the runtime and author code that it calls; `@torch.no_grad()` wraps a generator
_WRAPPERS = ("torch", *sys.stdlib_module_names)
#: causes and groups that are followed. It is bounded because an exception may be its own cause
_MOST = 64
#: columns of a line; a mark under the whole line is not shown
_WHOLE_LINE = 10_000


class Line(NamedTuple):
    """One entry of a traceback."""

    file: str
    number: int
    function: str


def author_error(raised: BaseException) -> BaseException:
    """What the log, a notebook or a test shows of an exception of author code: with the way out, if it called an event loop.

    Its traceback, that of its causes and its group begins at the author's first line; of an error that this package raises
    on purpose it has the author's lines alone. What only the runtime has raised stays whole.
    """
    error = with_twin(raised)
    for one in _with_causes(error):
        _cut(one)
    return error


def log_author_error(logger: logging.Logger, raised: BaseException | None, message: str, *args: object) -> None:
    """Log `message % args` at ERROR with what `author_error` gives; at its end is the author's last line, and the remedy.

    That line is a note for the log alone: a test compares the exception with what its author wrote.
    """
    error = None if raised is None else author_error(raised)
    with ExitStack() as stack:
        for leaf in () if error is None else _leaves(error):
            stack.enter_context(_place_noted(leaf))
        logger.error(message, *args, exc_info=error)


def place_of(error: BaseException) -> str:
    """The author's last line, `file:line`, in the traceback of the exception or of what it was raised from; else ""."""
    named = getattr(error, "location", "")
    places = (_place(one) for leaf in _leaves(error) for one in _with_causes(leaf))
    return named if isinstance(named, str) and named else next(filter(None, places), "")


def place_of_caller() -> str:
    """Return the line of author code, `file:line`, that has called the runtime; "" if no author code has."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_authors(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def note_place(error: BaseException, place: str) -> None:
    """Note the place and the section of the errors page, unless the text has the place."""
    if not place or f"(at {place})" in sendable(error):
        return
    link = error.link if isinstance(error, ReactorError) else f"{ERRORS_PAGE}#{ModelFailed.anchor}"
    notes = getattr(error, "__notes__", [])
    if link in notes:
        notes.remove(link)
    error.add_note(f"(at {place}) ({link})")


@contextmanager
def _place_noted(error: BaseException) -> Iterator[None]:
    before = list(getattr(error, "__notes__", []))
    note_place(error, place_of(error))
    try:
        yield
    finally:
        if before:
            error.__notes__ = before
        elif hasattr(error, "__notes__"):
            del error.__notes__


def lines_of(error: BaseException) -> list[Line]:
    """The entries of the traceback, the outermost first."""
    return [
        Line(entry.tb_frame.f_code.co_filename, entry.tb_lineno, entry.tb_frame.f_code.co_name)
        for entry in _entries(error.__traceback__)
    ]


def made_of(lines: Iterable[Line]) -> TracebackType | None:
    """A traceback of these lines, the outermost first. Its frames have no variables."""
    made: TracebackType | None = None
    for line in reversed(list(lines)):
        raising = ast.Raise(ast.Name("Exception", ast.Load()))
        # A generator's frame, which has ended, keeps no caller: that would be this function, and all that have called it.
        arguments = ast.arguments([], [], None, [], [], None, [])
        function = ast.FunctionDef("raises", arguments, [raising, ast.Expr(ast.Yield(None))], [], None)
        for node in ast.walk(function):
            position = {"lineno": line.number, "end_lineno": line.number, "col_offset": 0, "end_col_offset": _WHOLE_LINE}
            vars(node).update(position)
        module = compile(ast.Module([function], []), line.file, "exec")
        code = next(each for each in module.co_consts if isinstance(each, CodeType)).replace(co_name=line.function)
        try:
            next(FunctionType(code, {"__name__": ""})())
        except Exception as raised:
            own = raised.__traceback__ and raised.__traceback__.tb_next
            if own is not None:
                made = TracebackType(made, own.tb_frame, own.tb_lasti, line.number)
    return made


def _cut(error: BaseException) -> None:
    vars(error).setdefault(WHOLE_TRACEBACK, error.__traceback__)
    entries = list(_entries(error.__traceback__))
    if isinstance(error, ReactorError):
        made: TracebackType | None = None
        for entry in reversed([entry for entry in entries if _package(entry) not in (*_RUNTIME, "asyncio")]):
            made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        if made is None and isinstance(error, OutputError) and error.location:  # at a `yield`, which has raised nothing
            file, _, number = error.location.rpartition(":")
            made = made_of([Line(file, int(number), "yield")])
        if made is not None:
            error.__traceback__ = made
        return
    first = next((entry for entry in entries if _package(entry) not in (*_RUNTIME, *_WRAPPERS)), None)
    if first is not None:
        error.__traceback__ = first


def _place(error: BaseException) -> str:
    entries = [entry for entry in _entries(error.__traceback__) if _package(entry) not in (*_RUNTIME, *_WRAPPERS)]
    own = [entry for entry in entries if _is_authors(entry.tb_frame)]
    last = (own or entries)[-1:]  # a model may be an installed package
    return "".join(f"{entry.tb_frame.f_code.co_filename}:{entry.tb_lineno}" for entry in last)


def _is_authors(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    installed = {"site-packages", "dist-packages"} & set(Path(frame.f_code.co_filename).parts)
    return package not in (*_RUNTIME, *_WRAPPERS) and not installed


def _with_causes(error: BaseException) -> list[BaseException]:
    """The exception, those that it groups, and what they were raised from."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending and len(found) < _MOST:
        each = pending.pop(0)
        if each is None or any(each is other for other in found):
            continue
        found.append(each)
        pending += [each.__cause__, each.__context__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]
    return found


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _entries(entry: TracebackType | None) -> Iterator[TracebackType]:
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _package(entry: TracebackType) -> str:
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0]
