"""Replaces the error of model code that calls asyncio. Model code runs on Trio; the new error names what to call instead."""

from __future__ import annotations

import linecache
import re
import traceback

from reactor_trio.errors import ReactorError

#: names of asyncio, what replaces them in trio, and in anyio
_TABLE = (
    ("sleep", "sleep", "sleep"),
    ("Event Future", "Event", "Event"),
    ("Lock", "Lock", "Lock"),
    ("Semaphore BoundedSemaphore", "Semaphore", "Semaphore"),
    ("Condition", "Condition", "Condition"),
    ("Queue PriorityQueue LifoQueue", "open_memory_channel", "create_memory_object_stream"),
    ("gather create_task ensure_future TaskGroup wait as_completed Task", "open_nursery", "create_task_group"),
    ("wait_for timeout Timeout", "fail_after", "fail_after"),
    ("timeout_at", "fail_at", "fail_after"),
    ("shield", "CancelScope(shield=True)", "CancelScope(shield=True)"),
    ("to_thread run_in_executor", "to_thread.run_sync", "to_thread.run_sync"),
    ("run_coroutine_threadsafe", "from_thread.run", "from_thread.run"),
    ("get_event_loop get_running_loop", "lowlevel.current_trio_token", "lowlevel.current_token"),
    ("current_task", "lowlevel.current_task", "get_current_task"),
    ("open_connection", "open_tcp_stream", "connect_tcp"),
    ("start_server", "serve_tcp", "create_tcp_listener"),
    ("create_subprocess_exec create_subprocess_shell", "run_process", "run_process"),
)
_TWINS = {name: (f"trio.{in_trio}", f"anyio.{in_anyio}") for names, in_trio, in_anyio in _TABLE for name in names.split()}

#: these give a loop, and the call that fails is that of the loop's method
_GETTERS = ("get_event_loop", "get_running_loop")

#: a call as authors write it, with or without `asyncio.`
_WRITTEN = re.compile(r"\b(asyncio\.)?(\w+)\(")

#: type and text of the errors that follow a call of asyncio on Trio; asyncio, Python and Trio each raise their own
_SYMPTOMS: tuple[tuple[type[Exception], str], ...] = (
    (RuntimeError, "event loop"),
    (AttributeError, "has no attribute 'create_future'"),
    (TypeError, "unrecognized yield message"),
)


class AsyncioUsedError(ReactorError, RuntimeError):
    """Model code called asyncio. The message names the replacement, `__cause__` is the error that asyncio or Trio raised."""


def with_twin(error: Exception) -> Exception:
    """Return `error`, or an AsyncioUsedError if `error` comes from a call of asyncio on Trio."""
    if not any(isinstance(error, kind) and words in str(error) for kind, words in _SYMPTOMS):
        return error
    call = _asyncio_call(error)
    twins = _TWINS.get(call or "")
    use = f"{twins[0]} or {twins[1]}" if twins else "its counterpart in trio or anyio"
    called = f"asyncio.{call}" if call else "asyncio"
    hint = AsyncioUsedError(f"{called} does not work here, for model code runs on Trio: use {use}")
    hint.__cause__ = error
    return hint


def _asyncio_call(error: Exception) -> str | None:
    """Find the function or class of asyncio that author code called.

    A frame of asyncio names it, if authors use that name. A function written in C has no frame; then the author's line of
    source names it.
    """
    written: str | None = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__package__") == "asyncio":
            entered = frame.f_code.co_qualname.partition(".")[0]
            return entered if entered in _TWINS else written or entered
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
        names = ["run_in_executor"] if "run_in_executor" in line else [name for _, name in _WRITTEN.findall(line)]
        known = [name for name in names if name in _TWINS]
        written = next((name for name in known if name not in _GETTERS), known[0] if known else written)
    return written
