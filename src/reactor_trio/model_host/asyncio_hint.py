"""Model code that calls asyncio is told what to call instead: it runs on Trio, and the two do not mix."""

from __future__ import annotations

import traceback

from reactor_trio.errors import ReactorError

_TWINS = {
    "sleep": "trio.sleep",
    "Event": "trio.Event",
    "Lock": "trio.Lock",
    "Semaphore": "trio.Semaphore",
    "Condition": "trio.Condition",
    "Queue": "trio.open_memory_channel",
    "gather": "trio.open_nursery",
    "create_task": "trio.open_nursery",
    "ensure_future": "trio.open_nursery",
    "TaskGroup": "trio.open_nursery",
    "wait_for": "trio.fail_after",
    "timeout": "trio.fail_after",
    "shield": "trio.CancelScope(shield=True)",
    "to_thread": "trio.to_thread.run_sync",
    "get_event_loop": "trio.lowlevel.current_trio_token",
}

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
    twin = _TWINS.get(call or "", "its counterpart in trio")
    called = f"asyncio.{call}" if call else "asyncio"
    hint = AsyncioUsedError(f"{called} does not work here, for model code runs on Trio: use {twin}, or anyio's twin of it")
    hint.__cause__ = error
    return hint


def _asyncio_call(error: Exception) -> str | None:
    """The function or class of asyncio in which author code ended up."""
    for frame, _line in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__package__") == "asyncio":
            return frame.f_code.co_qualname.partition(".")[0]
    return None
