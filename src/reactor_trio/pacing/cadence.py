"""The frame rate of a session: it follows the model's speed and never exceeds the declared rate.

The estimate is an exponentially smoothed compute time per frame. The first step is often a warm-up (compilation, empty
caches), so the second step replaces its time; every later step has the weight `ALPHA`. Waiting and idling are not compute
time and are never observed, so a full queue does not lower the rate.
"""

from __future__ import annotations

import math

ALPHA = 0.3
MIN_FPS = 1.0
DEFAULT_FPS = 30.0


class Cadence:
    """The smoothed compute time per frame, and the frame rate that follows from it.

    Args:
        fps: the declared rate, which is an upper limit; None if the model declares none.
        max_fps: the server's limit, above all others.

    Attributes:
        seconds_per_frame: the smoothed compute time of one frame; 0 before the first observation.
        shortest: the shortest allowed interval in seconds.
    """

    def __init__(self, fps: float | None, max_fps: float) -> None:
        self.max_fps = max_fps
        self.seconds_per_frame = 0.0
        self._declared = fps
        self._taken = math.inf
        self._observed = 0
        self._limit_rate()

    @property
    def fps(self) -> float:
        """The target rate in frames per second."""
        if not self._observed:
            return min(self._declared if self._declared is not None else DEFAULT_FPS, self.max_fps)
        ceiling = self._ceiling
        if self.seconds_per_frame * ceiling <= 1:
            return ceiling
        return max(1 / self.seconds_per_frame, self._least)

    @property
    def interval(self) -> float:
        """Seconds between two frames."""
        return 1 / self.fps

    def clamped(self, interval: float) -> float:
        """Clamp `interval`, in seconds, to the allowed range."""
        return min(max(interval, self.shortest), self._longest)

    def _limit_rate(self) -> None:
        self._ceiling = min(self._declared if self._declared is not None else self._taken, self.max_fps)
        self._least = min(MIN_FPS, self._ceiling)
        self.shortest, self._longest = 1 / self._ceiling, 1 / self._least

    def observe(self, seconds: float, frames: int) -> None:
        """Record that a step needed `seconds` of compute time for `frames` frames. Invalid values are ignored."""
        if frames < 1 or not math.isfinite(seconds) or seconds < 0:
            return
        sample = seconds / frames
        self._observed += 1
        if self._observed <= 2:
            self.seconds_per_frame = sample
        else:
            self.seconds_per_frame += ALPHA * (sample - self.seconds_per_frame)

    def limit(self, fps: float) -> None:
        """Limit an undeclared rate to `fps`. A declared rate is not affected."""
        self._taken = fps
        self._limit_rate()

    def set_fps(self, fps: float | None) -> None:
        """Replace the declared rate; None: none is declared. Raises ValueError unless it is a finite number above 0."""
        self._declared = None if fps is None else checked_fps(fps)
        self._limit_rate()


def checked_fps(fps: float) -> float:
    """Return `fps`. Raises ValueError unless it is a finite number above 0."""
    if not math.isfinite(fps) or fps <= 0:
        raise ValueError(f"fps must be a finite number above 0, not {fps!r}")
    return fps
