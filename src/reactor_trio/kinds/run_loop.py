"""A `ReactorModel` makes its steps itself: its `run()` goes on for the model's life, and emits frames when it has some.

Commands are applied one at a time and in order, at any await of `run()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FrameType
from typing import Any

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.stacks import awaits
from reactor_trio.errors import DeclarationError
from reactor_trio.execution.call_watch import WatchesPieces
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface.declaration import is_generator_function
from reactor_trio.interface.model import Model, ReactorModel
from reactor_trio.kinds.kind import Frames, Kind


class RunLoopDriver(Driver):
    """Applies the commands of a session. `run()` is not the session's."""

    async def drive(self) -> None:
        """Apply commands as they come."""
        await self.apply_commands(self._session.host.time.settle)


def open_driver(session: DrivenSession, _batcher: object) -> RunLoopDriver:
    """See `Kind`."""
    return RunLoopDriver(session)


async def run(model: Model, binding: SessionBinding) -> None:
    """Run the model's `run()`, which takes turns in `emit`. Raises what it raises."""
    assert isinstance(model, ReactorModel)
    running: object = model.run()
    if not inspect.isawaitable(running):
        raise TypeError(f"run() must be async, it returned {type(running).__name__}")
    pieces = WatchesPieces(lambda: None if binding.runner is None else binding.runner.calls)
    code = TracedAwaitable(running, observer=pieces)
    await binding.turn.run(code)


async def frames(_driver: Driver, model: Model, host: ModelHost) -> Frames | None:
    """See `Kind`: where `run()` of this instance waits."""
    return await host.run(_frames_of_run, model)


async def _frames_of_run(model: Model) -> Iterable[tuple[FrameType, int]]:
    await trio.lowlevel.checkpoint()
    code = type(model).run.__code__  # type: ignore[attr-defined]
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        if (task := tasks.pop()) is None:
            continue
        stack = list(awaits(task.coro))
        for index, (frame, _) in enumerate(stack):
            if frame.f_code is code and frame.f_locals.get("self") is model:
                return stack[index:]
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return ()


def check(name: str, model: Any) -> None:
    """See `Kind`."""
    if is_generator_function(model.run):
        raise DeclarationError(f"{name}.run must not yield: it emits frames, `await self.emit(output)`")


RUN_LOOP = Kind(method="run()", driver=open_driver, frames=frames, run=run, endless=True, check=check)
