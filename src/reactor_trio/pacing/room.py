"""`Room`: when a session's next step and its next frame find room in the output."""

from __future__ import annotations

from typing import Protocol


class Room(Protocol):
    """The room in one session's output, on the model's side. All times are in seconds of the caller's clock.

    `PlayoutForecast` predicts what the playout of a live session shows. A rendering has room while its film is not full.

    Attributes:
        crowded: whether the frames that are put, and not yet reported by playout, have so many bytes that `starves` is to be
            asked.
        emitted: how many bytes of these frames were emitted.
    """

    crowded: bool
    emitted: int

    @property
    def starves(self) -> bool:
        """Whether so much is put that the model has to wait for a report of playout."""

    def make_room_for(self, batch: int) -> None:
        """Set the capacity so that the buffer holds at least one batch of `batch` frames."""

    def step_at(self, now: float, step_seconds: float, margin: float) -> float:
        """When the next step may start; infinity: when something has changed."""

    def queue_at(self, now: float) -> float:
        """When there is room for a frame of a step."""

    def emit_at(self, now: float) -> float:
        """When there is room for an emitted frame."""

    def waiting(self, now: float) -> int:
        """The number of frames that wait to be shown."""

    def runs_dry(self, now: float) -> float:
        """When the last of these frames ends."""

    def put(self, ready: float, duration: float, paced: bool = True, size: int = 0, emitted: int = 0) -> None:
        """Record a frame that goes to playout; see `PlayoutForecast.put`."""

    def handed(self, until: float) -> None:
        """Record that the oldest frame is shown now, until `until`."""

    def shown(self, until: float) -> None:
        """Record that the frame on screen now ends at `until`. Playout reports this after each flush, too."""

    def stood_still(self, until: float) -> None:
        """Record that playout stood still until this time."""

    def retimed(self, interval: float) -> None:
        """Give each frame that waits, and whose duration no sound fixes, the duration `interval`."""

    def flushed(self, now: float) -> None:
        """Forget the frames that wait."""
