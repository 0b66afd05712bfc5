"""`runtime.moderate`: an author's or operator's hook that may refuse the text in a command before the model sees it.

    def moderate(text: str, *, command: str, field: str) -> str | None     # or async; the reason, or None if it is fine

The hook runs in a worker thread, so that neither loop waits for it; an async hook runs on a Trio loop of its own
there. If the hook fails or takes too long for the texts of a command, the command is refused. A thread that never
returns is abandoned and keeps one of the eight places for checks.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import trio

from reactor_trio.concurrency import FailureLog, hide_trio_from_nested_loops
from reactor_trio.concurrency.lost_time import patient
from reactor_trio.execution.author_failures import is_failure
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.placement.model_source import Hook
from reactor_trio.placement.placement import Check

log = logging.getLogger("reactor_trio.moderation")

#: The client's error for a text that the hook could not check; the log has the cause.
UNCHECKED = "the text could not be checked"

_THREADS = 8


def check_in_thread(hook: Hook, timeout: float) -> Check:
    """Wrap `hook` for sessions: it runs off the loop, for at most `timeout` seconds a command. The result never raises."""
    limiter = trio.CapacityLimiter(_THREADS)

    async def call(function: Callable[[], Any]) -> Any:
        return await trio.to_thread.run_sync(partial(_await_here, function), abandon_on_cancel=True, limiter=limiter)

    return _checked(hook, timeout, call)


def check_on_loop(hook: Hook, timeout: float) -> Check:
    """As `check_in_thread`, on the caller's loop: for tests, because virtual time does not wait for threads."""

    async def call(function: Callable[[], Any]) -> Any:
        result = function()
        return await TracedAwaitable(result) if inspect.isawaitable(result) else result

    return _checked(hook, timeout, call)


def _checked(hook: Hook, timeout: float, call: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Check:
    failures = FailureLog()
    hide_trio_from_nested_loops()

    async def check(command: str, texts: Sequence[tuple[str, str]]) -> str | None:
        field = ""
        try:
            with patient(trio.move_on_after(timeout)) as limit:
                for field, text in texts:  # one after the other: a command takes one of the places for checks
                    reason = await call(partial(hook, text, command=command, field=field))
                    if isinstance(reason, str) and reason:
                        return reason
                    if reason is not None:
                        raise TypeError(f"it must return None or the reason as text, not {reason!r}")
            if limit.cancelled_caught:
                log.error("the moderation hook took over %g s for %s.%s, which is refused", timeout, command, field)
                return UNCHECKED
            return None
        except BaseException as error:
            if not is_failure(error):
                raise
            failures.log(log, error, "the moderation hook failed on %s.%s, which is refused", command, field)
            return UNCHECKED

    return check


def _await_here(function: Callable[[], Any]) -> Any:
    try:
        result = function()
        return trio.run(_result_of, result) if inspect.isawaitable(result) else result
    except BaseException as error:
        if is_failure(error):
            raise
        raise RuntimeError(f"it raised {type(error).__name__}: {error}") from error  # SystemExit would end the server's loop


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await TracedAwaitable(awaitable)
