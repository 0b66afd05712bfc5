"""The placement of a model that the settings leave in this process: a thread here, or processes if it has several ranks.

A model is imported where it runs, so the number of its ranks is known only while it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.placement import Ending, LocalPlacement, Placed, Placement, SeveralRanks
from reactor_trio.telemetry import Telemetry


class ImpliedPlacement:
    """See `Placement`. It calls `processes`, which makes a placement for several ranks, at most once."""

    def __init__(self, local: LocalPlacement, processes: Callable[[], Placement]) -> None:
        self._placement: Placement = local
        self._processes = processes

    @property
    def running(self) -> int:
        """See `Placement`."""
        return self._placement.running

    @property
    def process(self) -> Any:
        """The process of `ProcessPlacement`, if the model has one."""
        return getattr(self._placement, "process", None)

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
