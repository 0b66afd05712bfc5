"""The errors of model code that calls an event loop in a way that cannot work. They name what to call instead.

Model code runs on Trio. `no_asyncio` makes the error where a call of asyncio asks for its loop. `with_twin` replaces the
errors that asyncio, AnyIO and Trio raise themselves, when they reach the runtime.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType

from reactor_trio.errors import ReactorError
from reactor_trio.plain_text import sendable

#: names of asyncio, what replaces them in trio, and in anyio
_TABLE = (
    ("sleep", "sleep", "sleep"),
    ("Event Future", "Event", "Event"),
    ("Lock", "Lock", "Lock"),
    ("Semaphore BoundedSemaphore", "Semaphore", "Semaphore"),
    ("Condition", "Condition", "Condition"),
    ("Queue PriorityQueue LifoQueue", "open_memory_channel", "create_memory_object_stream"),
    ("gather create_task ensure_future TaskGroup wait as_completed Task", "open_nursery", "create_task_group"),
    ("wait_for timeout", "fail_after", "fail_after"),
    ("timeout_at", "fail_at", "fail_after"),
    ("shield", "CancelScope(shield=True)", "CancelScope(shield=True)"),
    ("to_thread run_in_executor", "to_thread.run_sync", "to_thread.run_sync"),
    ("run_coroutine_threadsafe", "from_thread.run", "from_thread.run"),
    ("call_soon_threadsafe", "from_thread.run_sync", "from_thread.run_sync"),
    ("call_soon call_later call_at", "open_nursery", "create_task_group"),
    ("get_event_loop get_running_loop", "lowlevel.current_trio_token", "lowlevel.current_token"),
    ("current_task", "lowlevel.current_task", "get_current_task"),
    ("open_connection create_connection", "open_tcp_stream", "connect_tcp"),
    ("start_server create_server", "serve_tcp", "create_tcp_listener"),
    ("create_subprocess_exec create_subprocess_shell", "run_process", "run_process"),
)
_TWINS = {name: (f"trio.{in_trio}", f"anyio.{in_anyio}") for names, in_trio, in_anyio in _TABLE for name in names.split()}

#: these give a loop, and the call that fails is that of the loop's method
_GETTERS = ("get_event_loop", "get_running_loop")

#: the packages of the runtime, which calls author code
_OURS = __package__.partition(".")[0] + "."

#: a call as authors write it, with or without `asyncio.`
_WRITTEN = re.compile(r"\b(asyncio\.)?(\w+)\(")

#: type and text of the errors that follow a call of asyncio on Trio; asyncio, Python and Trio each raise their own
_SYMPTOMS: tuple[tuple[type[Exception], str], ...] = (
    (RuntimeError, "event loop"),
    (AttributeError, "has no attribute 'create_future'"),
    (TypeError, "unrecognized yield message"),
)


_AWAIT = "await the function in an async method"
#: what calls say that need another thread or loop than the one they are made on, their names, and the way out
_ELSEWHERE = (
    ("call run() from inside a run()", "trio.run", f"{_AWAIT}, or call trio.run in a thread of its own"),
    ("Already running trio", "anyio.run", f"{_AWAIT}; in a plain method use asyncio.run"),
    ("call it from a thread", "trio.from_thread", _AWAIT),
    ("wasn't created by Trio", "trio.from_thread", _AWAIT),
    ("AnyIO worker thread", "anyio.from_thread", _AWAIT),
    ("cannot be called from a running event loop", "asyncio.run", "await trio.to_thread.run_sync(asyncio.run, function())"),
    ("while another loop is running", "run_until_complete", "await trio.to_thread.run_sync(asyncio.run, function())"),
)

#: what Trio raises where it does not run
_NO_TRIO = ("must be called from async context", "'RunContext' object has no attribute")


class AsyncioUsedError(ReactorError, RuntimeError):
    """Model code called asyncio. The message names the replacement, `__cause__` is the error that asyncio or Trio raised."""


class WrongLoopError(ReactorError, RuntimeError):
    """Model code called an event loop where that cannot run. The message names the way out; `__cause__` is its own error."""


def with_twin(error: BaseException) -> BaseException:
    """Return `error`, or one that names the way out if `error` comes from a call of an event loop that cannot work here.

    What asyncio was given to run is closed: Python would warn that it "was never awaited", of any line that then runs.
    """
    _close_what_asyncio_got(error)
    text = sendable(error)
    hint: BaseException
    if isinstance(error, RuntimeError | AttributeError) and any(words in text for words in _NO_TRIO):
        hint = WrongLoopError("trio runs in model code, but not in a loop or a thread that this starts: use anyio there")
    elif isinstance(error, RuntimeError) and (known := next((row for row in _ELSEWHERE if row[0] in text), None)):
        hint = WrongLoopError(f"{known[1]} does not work here, for Trio runs model code in this thread: {known[2]}")
    elif any(isinstance(error, kind) and words in text for kind, words in _SYMPTOMS):
        hint = _used(_asyncio_call(traceback.walk_tb(error.__traceback__)))
    else:
        return error
    hint.__cause__ = error
    return hint


def _close_what_asyncio_got(error: BaseException) -> None:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__package__") == "asyncio":
            for value in frame.f_locals.values():
                for each in value if isinstance(value, list | tuple | set) else (value,):
                    if inspect.iscoroutine(each) and inspect.getcoroutinestate(each) == inspect.CORO_CREATED:
                        each.close()


def no_asyncio(attribute: str | None = None) -> AsyncioUsedError:
    """The error for author code whose call of asyncio, which goes on now, asks the loop for this attribute."""
    call = _asyncio_call(reversed([(frame, frame.f_lineno) for frame in _author_frames()]))
    if attribute is None or call not in (None, *_GETTERS):
        return _used(call)
    return _used(attribute, "asyncio" if attribute in _TWINS else "asyncio.get_running_loop()")


def _used(call: str | None, owner: str = "asyncio") -> AsyncioUsedError:
    twins = _TWINS.get(call or "")
    use = f"{twins[0]} or {twins[1]}" if twins else "its counterpart in trio or anyio"
    called = f"{owner}.{call}" if call else owner
    return AsyncioUsedError(f"{called} does not work here, for model code runs on Trio: use {use}")


def _author_frames() -> Iterator[FrameType]:
    """The frames of asyncio and of author code that have called this package, the innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    while frame is not None and not str(frame.f_globals.get("__package__")).startswith(_OURS):
        yield frame
        frame = frame.f_back


def _asyncio_call(frames: Iterable[tuple[FrameType, int]]) -> str | None:
    """Find the function or class of asyncio that author code called, in frames with their lines, the outermost first.

    A frame of asyncio names it, if authors use that name. A function written in C has no frame; then the author's line of
    source names it.
    """
    written: str | None = None
    for frame, number in frames:
        if frame.f_globals.get("__package__") == "asyncio":
            entered = frame.f_code.co_qualname.partition(".")[0]
            known = [name for name in (entered, entered.lower()) if name in _TWINS]  # `timeout()` makes a Timeout
            return known[0] if known else written or entered
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
        names = ["run_in_executor"] if "run_in_executor" in line else [name for _, name in _WRITTEN.findall(line)]
        known = [name for name in names if name in _TWINS]
        written = next((name for name in known if name not in _GETTERS), known[0] if known else written)
    return written
