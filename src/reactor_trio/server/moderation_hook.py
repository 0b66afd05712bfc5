"""`runtime.moderate`: an author's or operator's hook that may refuse the text in a command before the model sees it.

    def moderate(text: str, *, command: str, field: str) -> str | None     # or async; the reason, or None if it is fine

The hook runs in a worker thread, an async one on a Trio loop of its own there, so that neither loop waits for it. A hook
that fails or takes too long refuses: what could not be checked is not let in. A thread that never ends is left behind, and
holds one of the few places that there are for checks.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from reactor_trio.concurrency import FailureLog
from reactor_trio.execution.model_side import Hook
from reactor_trio.execution.placement import Check

log = logging.getLogger("reactor_trio.moderation")

#: What the client is told of a text that could not be checked; why is in the log.
UNCHECKED = "the text could not be checked"

_THREADS = 8


def check_in_thread(hook: Hook, timeout: float) -> Check:
    """`hook` as a session calls it: off the loop, for `timeout` seconds at most; whatever it does, it does not raise."""
    limiter = trio.CapacityLimiter(_THREADS)

    async def call(function: Callable[[], Any]) -> Any:
        return await trio.to_thread.run_sync(partial(_await_here, function), abandon_on_cancel=True, limiter=limiter)

    return _checked(hook, timeout, call)


def check_on_loop(hook: Hook, timeout: float) -> Check:
    """The same on the caller's loop, for tests in virtual time, which a thread would run beside."""

    async def call(function: Callable[[], Any]) -> Any:
        result = function()
        return await result if inspect.isawaitable(result) else result

    return _checked(hook, timeout, call)


def _checked(hook: Hook, timeout: float, call: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Check:
    failures = FailureLog()

    async def check(text: str, command: str, field: str) -> str | None:
        try:
            with trio.move_on_after(timeout) as limit:
                reason = await call(partial(hook, text, command=command, field=field))
            if limit.cancelled_caught:
                log.error("the moderation hook took over %g s for %s.%s, which is refused", timeout, command, field)
                return UNCHECKED
            if reason is None or (isinstance(reason, str) and reason):
                return reason
            raise TypeError(f"it must return None or the reason as text, not {reason!r}")
        except Exception as error:
            failures.log(log, error, "the moderation hook failed on %s.%s, which is refused", command, field)
            return UNCHECKED

    return check


def _await_here(function: Callable[[], Any]) -> Any:
    result = function()
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return trio.run(wait)
