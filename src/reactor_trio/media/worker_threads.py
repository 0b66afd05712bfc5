"""The threads of one server that encode and decode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import trio

from reactor_trio.media import Overrun, Worker

A = TypeVar("A")
R = TypeVar("R")


def worker_threads(most: int) -> Worker:
    """`most` functions run at a time, each in a thread; one that overruns its time gives its place to others."""
    places, threads = trio.CapacityLimiter(most), trio.CapacityLimiter(math.inf)

    async def work(function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
        async with places:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + limit):
                return await trio.to_thread.run_sync(function, argument, abandon_on_cancel=True, limiter=threads)
            raise Overrun(f"{function} has not returned in {limit:g} s")

    return work
