"""Stacks of author code: of a thread, or of the awaits of a waiting task, without the frames of this runtime."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import outcome
import trio

_PACKAGE = str(Path(__file__).parent.parent)
_PLUMBING = (_PACKAGE, str(Path(outcome.__file__).parent), str(Path(trio.__file__).parent))
#: nested awaits that `awaits` follows at most
_DEEPEST = 1000


def thread_stack(thread: threading.Thread | None) -> str:
    """Return the stack of a thread from the first frame of author code on; "" if it runs no author code."""
    frame = _frame_of(thread)
    lines = [] if frame is None else traceback.extract_stack(frame)
    begun = next((index for index, line in enumerate(lines) if line.filename.startswith(_PACKAGE)), 0)
    authors = range(begun, len(lines))
    first = next((index for index in authors if not lines[index].filename.startswith(_PLUMBING)), len(lines))
    return "".join(traceback.format_list(lines[first:]))


def runs_now(task: trio.lowlevel.Task, thread: threading.Thread | None) -> bool:
    """Return whether the thread runs this task now."""
    frame, own = _frame_of(thread), task.coro.cr_frame
    while frame is not None and frame is not own:
        frame = frame.f_back
    return frame is not None


def await_stack(task: trio.lowlevel.Task) -> str:
    """Return the frames of author code that wait in this task; "" if there are none."""
    frames = [(frame, line) for frame, line in awaits(task.coro) if not frame.f_code.co_filename.startswith(_PLUMBING)]
    return "".join(traceback.format_list(traceback.StackSummary.extract(iter(frames))))


def awaits(code: Any) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a suspended coroutine or generator and of all that it awaits, outermost first, with lines."""
    for _ in range(_DEEPEST):
        if code is None:
            return
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(code, f"{kind}_frame")), None)
        if kind is None:  # `anext`, `asend` and `coroutine.__await__()` show only their referents
            held = gc.get_referents(code)
            code = next((item for item in held if _is_suspended(item)), None)
            continue
        frame = getattr(code, f"{kind}_frame")
        if frame is None:
            return
        yield frame, frame.f_lineno
        code = getattr(code, {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}[kind])
        if code is None and frame.f_code.co_filename.startswith(_PACKAGE):
            code = frame.f_locals.get("code")  # `execution.traced_awaitable` resumes it by hand


def _is_suspended(item: Any) -> bool:
    return hasattr(item, "ag_frame") or hasattr(item, "cr_frame") or type(item).__name__.endswith("asend")


def _frame_of(thread: threading.Thread | None) -> FrameType | None:
    return None if thread is None else sys._current_frames().get(thread.ident or -1)
