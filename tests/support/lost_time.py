"""A loop that notices lost time, in virtual time: `clock.jump` within a turn is a process that was stopped for so long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock

from reactor_trio.concurrency.loop_lag import LoopLag


@asynccontextmanager
async def stoppable(clock: MockClock) -> AsyncIterator[Callable[[float, float], None]]:
    """Gives `stop(at, seconds)`: `at` seconds from now the process is stopped for `seconds`."""
    with LoopLag().watched() as lag:
        async with trio.open_nursery() as nursery:

            async def stop(at: float, seconds: float) -> None:
                await trio.sleep(at)
                clock.jump(seconds)

            nursery.start_soon(lag.tick)
            yield lambda at, seconds: nursery.start_soon(stop, at, seconds)
            nursery.cancel_scope.cancel()
