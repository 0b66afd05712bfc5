"""How fast frames are played: the rate follows what the model can do and never exceeds what was declared.

Seconds per frame = exponentially smoothed compute time per frame. The first step is often a warm-up (compilation, caches
to fill), so its time holds only until the second step replaces it; from then on each step counts for `ALPHA`. Waiting for
room and idling are not compute time and are never observed here, so a full queue cannot slow the rate down.
"""

from __future__ import annotations

import math

ALPHA = 0.3
MIN_FPS = 1.0
DEFAULT_FPS = 30.0


class Cadence:
    """The estimate of seconds per frame, and the rate that follows from it.

    Args:
        fps: declared rate; caps, never raises. None: not declared.
        max_fps: limit above all others.
    """

    def __init__(self, fps: float | None, max_fps: float) -> None:
        self.max_fps = max_fps
        self._declared = fps
        self._taken = math.inf
        self._seconds_per_frame: float | None = None
        self._observed = 0

    @property
    def seconds_per_frame(self) -> float:
        """The model's smoothed compute time of one frame, 0 while nothing is known."""
        return self._seconds_per_frame or 0.0

    @property
    def fps(self) -> float:
        """Target rate in frames per second."""
        if self._seconds_per_frame is None:
            return min(self._declared if self._declared is not None else DEFAULT_FPS, self.max_fps)
        ceiling = self._ceiling
        if self._seconds_per_frame * ceiling <= 1:
            return ceiling
        return max(1 / self._seconds_per_frame, min(MIN_FPS, ceiling))

    @property
    def interval(self) -> float:
        """Seconds between two frames."""
        return 1 / self.fps

    @property
    def shortest(self) -> float:
        """The shortest interval that is allowed, in seconds."""
        return 1 / self._ceiling

    def clamped(self, interval: float) -> float:
        """`interval`, in seconds, or the nearest that is allowed."""
        return min(max(interval, self.shortest), max(1 / MIN_FPS, self.shortest))

    @property
    def _ceiling(self) -> float:
        return min(self._declared if self._declared is not None else self._taken, self.max_fps)

    def observe(self, seconds: float, frames: int) -> None:
        """A step took `seconds` of compute time for `frames` frames."""
        if frames < 1 or not math.isfinite(seconds) or seconds < 0:
            return
        sample = seconds / frames
        self._observed += 1
        if self._observed <= 2 or self._seconds_per_frame is None:
            self._seconds_per_frame = sample
        else:
            self._seconds_per_frame += ALPHA * (sample - self._seconds_per_frame)

    def limit(self, fps: float) -> None:
        """More than `fps` is not taken: a rate that was not declared stays below it."""
        self._taken = fps

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate. Raises ValueError unless `fps` is a finite number above 0."""
        self._declared = checked_fps(fps)


def checked_fps(fps: float) -> float:
    """`fps` if it can be a rate. Raises ValueError."""
    if not math.isfinite(fps) or fps <= 0:
        raise ValueError(f"fps must be a finite number above 0, not {fps!r}")
    return fps
