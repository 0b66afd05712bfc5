"""Telemetry that notes the frames dropped."""

from __future__ import annotations

from reactor_trio.telemetry import Telemetry


class NotedDrops(Telemetry):
    """What was dropped, in order: place, reason, frames."""

    def __init__(self) -> None:
        self.drops: list[tuple[str, str, int]] = []

    def dropped(self, place: str, reason: str, frames: int) -> None:
        self.drops.append((place, reason, frames))
