"""A `ReactorModel` makes its steps itself: its `run()` goes on for the model's life, and emits frames when it has some.

Commands are applied one at a time and in order, at any await of `run()`.
"""

from __future__ import annotations

import inspect
from typing import Any

from reactor_trio.errors import DeclarationError
from reactor_trio.execution.call_monitor import MonitorsPieces
from reactor_trio.execution.driver import AppliesCommands, Driver
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface.declaration import is_generator_function
from reactor_trio.interface.model import Model, ReactorModel


class RunLoopDriver(Driver):
    """Applies the commands of a session. `run()` is not the session's."""

    emits_alone = True

    async def drive(self, commands: AppliesCommands) -> None:
        """Apply commands as they come."""
        settle = self._session.host.time.settle
        if commands.moments is None:
            await self.apply_commands(commands.apply_next, settle)
            return
        with self.emits(commands) as apply_next:
            await self.apply_commands(apply_next, settle)


async def run(model: Model, binding: SessionBinding) -> None:
    """Run the model's `run()`, which takes turns in `emit`. Raises what it raises."""
    assert isinstance(model, ReactorModel)
    running: object = model.run()
    if not inspect.isawaitable(running):
        raise TypeError(f"run() must be async, it returned {type(running).__name__}")
    pieces = MonitorsPieces(lambda: None if binding.session is None else binding.session.calls)
    code = TracedAwaitable(running, observer=pieces)
    await binding.turn.run(code)


def check(name: str, model: Any) -> None:
    """Refuse a `run()` that yields."""
    if is_generator_function(model.run):
        raise DeclarationError(f"{name}.run must not yield: it emits frames, `await self.emit(output)`")
