"""Steps a `ReactorPipeline` that defines `batch_inference()`, which steps several sessions in one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.step_loop import StepMade, StepSource
from reactor_trio.execution.turns import SharedTurn
from reactor_trio.interface.author_code import defining_line
from reactor_trio.interface.model import Model
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher, call_batch


async def step_alone(model: Model) -> StepMade:
    """Make a batch of one. Returns what `DynamicBatcher.join` returns, and raises what it raises."""
    began = trio.current_time()
    (output,) = await call_batch(model, [model])
    if isinstance(output, BaseException):
        raise output
    return StepMade(output, began=began)


class BatchSource(StepSource):
    """A session's share of the batches.

    Args:
        join: has the model stepped in the next batch, whose cost it spends.
    """

    def __init__(self, join: Callable[[Any], Awaitable[StepMade]] = step_alone) -> None:
        self._join = join

    async def resume(self, model: Any) -> StepMade:
        """Take part in the next batch."""
        return await self._join(model)

    def location(self, model: Any) -> str:
        """The line that defines `batch_inference()`."""
        return defining_line(model.batch_inference)


def open_source(session: DrivenSession | None) -> BatchSource:
    """Open the share of a session; without one, each step is a batch of one."""
    if session is None:
        return BatchSource()
    turn = session.turn
    assert isinstance(turn, SharedTurn)
    assert isinstance(turn.turns, DynamicBatcher)
    return BatchSource(partial(turn.turns.join, turn, over=lambda: session.over))
