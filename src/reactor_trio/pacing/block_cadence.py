"""How fast the frames of a blocking model are played: as fast as blocks of them come in.

The model says nothing of its compute time, so the rate is that of the pushes: frames of this block over the time since the
block before. If more than two frames still wait, they count too, so that a queue that grows is worked off. A time in which
monitoring was disabled is not known and changes nothing. Source: the 1.x runtime, `spec/behaviour.md` section 2.3.
"""

from __future__ import annotations

from reactor_trio.pacing.cadence import MIN_FPS, Cadence

FIRST_FPS = 16.0
#: More waiting frames than this are worked off.
BACKLOG = 2


class BlockCadence(Cadence):
    """The rate that follows from pushes.

    Args:
        fps: declared rate; caps, never raises. None: not declared.
        max_fps: limit above all others.
        fixed: the declared rate is the rate; nothing is measured.
    """

    def __init__(self, fps: float | None, max_fps: float, *, fixed: bool = False) -> None:
        super().__init__(fps, max_fps)
        self._fixed = fixed
        self._estimate = FIRST_FPS
        self._since: float | None = None

    @property
    def fps(self) -> float:
        """Target rate in frames per second."""
        ceiling = min(self._declared if self._declared is not None else self.max_fps, self.max_fps)
        return ceiling if self._fixed else max(min(self._estimate, ceiling), min(MIN_FPS, ceiling))

    def pushed(self, now: float, frames: int, waiting: int) -> None:
        """A block of `frames` is pushed while `waiting` frames of earlier ones are still queued."""
        if self._since is not None and now > self._since:
            backlog = waiting - 1 if waiting > BACKLOG else 0
            self._estimate = (frames + backlog) / (now - self._since)
        self._since = now

    def stood_still(self, began: float, ended: float) -> None:
        """The model could not push from `began` to `ended`: that is not its time."""
        if self._since is not None:
            self._since += ended - min(ended, max(began, self._since))

    def disable(self) -> None:
        """The model pauses on purpose: the time since the last block is no longer asked for."""
        self._since = None

    def enable(self, now: float) -> None:
        """It works again: the time of its next block counts from now, unless it counts already."""
        if self._since is None:
            self._since = now
