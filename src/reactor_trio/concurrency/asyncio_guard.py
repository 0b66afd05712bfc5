"""Model code that calls asyncio is told what to call instead: it runs on Trio, and the two do not mix."""

from __future__ import annotations

import linecache
import re
import traceback

from reactor_trio.errors import ReactorError

#: what in asyncio -> its twins in trio and in anyio
_TWINS: dict[str, tuple[str, str]] = {
    "sleep": ("trio.sleep", "anyio.sleep"),
    "Event": ("trio.Event", "anyio.Event"),
    "Lock": ("trio.Lock", "anyio.Lock"),
    "Semaphore": ("trio.Semaphore", "anyio.Semaphore"),
    "BoundedSemaphore": ("trio.Semaphore", "anyio.Semaphore"),
    "Condition": ("trio.Condition", "anyio.Condition"),
    **dict.fromkeys(
        ("Queue", "PriorityQueue", "LifoQueue"), ("trio.open_memory_channel", "anyio.create_memory_object_stream")
    ),
    **dict.fromkeys(
        ("gather", "create_task", "ensure_future", "TaskGroup", "wait", "as_completed", "Task"),
        ("trio.open_nursery", "anyio.create_task_group"),
    ),
    **dict.fromkeys(("wait_for", "timeout", "Timeout"), ("trio.fail_after", "anyio.fail_after")),
    "timeout_at": ("trio.fail_at", "anyio.fail_after"),
    "shield": ("trio.CancelScope(shield=True)", "anyio.CancelScope(shield=True)"),
    **dict.fromkeys(("to_thread", "run_in_executor"), ("trio.to_thread.run_sync", "anyio.to_thread.run_sync")),
    "run_coroutine_threadsafe": ("trio.from_thread.run", "anyio.from_thread.run"),
    **dict.fromkeys(
        ("get_event_loop", "get_running_loop"), ("trio.lowlevel.current_trio_token", "anyio.lowlevel.current_token")
    ),
    "Future": ("trio.Event", "anyio.Event"),
    "current_task": ("trio.lowlevel.current_task", "anyio.get_current_task"),
    "open_connection": ("trio.open_tcp_stream", "anyio.connect_tcp"),
    "start_server": ("trio.serve_tcp", "anyio.create_tcp_listener"),
    **dict.fromkeys(("create_subprocess_exec", "create_subprocess_shell"), ("trio.run_process", "anyio.run_process")),
}

#: a call as authors write it, with or without the module
_WRITTEN = re.compile(r"\b(asyncio\.)?(\w+)\(")

#: what a call of asyncio without its loop ends in: its own words, its missing loop, Trio's puzzlement
_SYMPTOMS: tuple[tuple[type[Exception], str], ...] = (
    (RuntimeError, "event loop"),
    (AttributeError, "has no attribute 'create_future'"),
    (TypeError, "unrecognized yield message"),
)


class AsyncioUsedError(ReactorError, RuntimeError):
    """Model code called asyncio; the message names the call's twin. `__cause__` is what asyncio or Trio made of it."""


def with_twin(error: Exception) -> Exception:
    """`error` itself, or what to do instead if it comes of calling asyncio on Trio."""
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
    """The function or class of asyncio that author code called.

    What asyncio's own frames say counts, if it is a name that authors use; of what is written in C there is no frame, and
    then the author's line is read.
    """
    written: str | None = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__package__") == "asyncio":
            entered = frame.f_code.co_qualname.partition(".")[0]
            return entered if entered in _TWINS else written or entered
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
        names = ["run_in_executor"] if "run_in_executor" in line else [name for _, name in _WRITTEN.findall(line)]
        written = next((name for name in names if name in _TWINS), written)
    return written
