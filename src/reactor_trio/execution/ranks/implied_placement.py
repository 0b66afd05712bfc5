"""The thread of this process, unless the model that is found there has several ranks: those imply processes.

A model is imported where it runs, so what it declares is known only then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.placement import Ending, LocalPlacement, Placed, Placement, SeveralRanks
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:
    from reactor_trio.execution.isolation.model_process import ModelProcess


class ImpliedPlacement:
    """See `Placement`; `processes` gives the other one, once."""

    def __init__(self, local: LocalPlacement, processes: Callable[[], Placement]) -> None:
        self._placement: Placement = local
        self._processes = processes

    @property
    def running(self) -> int:
        """See `Placement`."""
        return self._placement.running

    @property
    def process(self) -> ModelProcess | None:
        """That of `ProcessPlacement`, if the model has one."""
        process: ModelProcess | None = getattr(self._placement, "process", None)
        return process

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """See `Placement`."""
        try:
            return await self._placement.load(config, settings, telemetry)
        except SeveralRanks:
            self._placement = self._processes()
        return await self._placement.load(config, settings, telemetry)

    async def begin(self) -> None:
        """See `Placement`."""
        await self._placement.begin()

    async def until_ended(self) -> Ending:
        """See `Placement`."""
        return await self._placement.until_ended()

    def killed(self, error: BaseException) -> None:
        """See `Placement`."""
        self._placement.killed(error)
