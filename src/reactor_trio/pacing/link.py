"""Placeholder until rate control lands."""

from reactor_trio.pacing.ladder import Quality


class LinkControl:
    """A window of two frames."""

    def __init__(self) -> None:
        self.quality = Quality()
        self.active = False
        self._sent = self._acked = -1
        self._flight: list[int] = []

    def describe(self, full: float, fps: float, codec: str, width: int, height: int, now: float) -> None:
        """Full quality."""
        self.quality = Quality(full)

    def sent(self, seq: int, size: int, now: float, keyframe: bool = False) -> None:
        """Sent."""
        self._flight.append(seq)

    def acknowledged(self, seq: int, now: float) -> None:
        """Acknowledged."""
        self.active = True
        self._flight = [s for s in self._flight if s > seq]

    def skipped(self, now: float) -> None:
        """Skipped."""

    def open(self, now: float) -> bool:
        """Whether a frame may be sent."""
        return not self.active or len(self._flight) < 2

    def reopens_at(self) -> float:
        """When a probe may go out."""
        return float("inf")
