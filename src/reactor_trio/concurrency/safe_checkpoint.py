"""A checkpoint for a task whose scopes another task may shield meanwhile, as `DriverScopes.protect_closing` does."""

from __future__ import annotations

import math

import trio


async def raise_if_cancelled() -> None:
    """Raise Cancelled if this task is cancelled; else do not yield.

    If another task shields this one while it yields, this returns. `trio.lowlevel.checkpoint_if_cancelled` fails then.
    """
    if trio.current_effective_deadline() == -math.inf:
        await trio.lowlevel.checkpoint()
