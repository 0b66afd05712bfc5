"""The frame rate of a blocking model, measured from the blocks that it pushes.

A blocking model does not report its compute time. The rate is therefore the number of frames in a block divided by the time
since the previous block. If more than `BACKLOG` frames are still queued, they are added to the count, so that a growing
queue is drained. Time during which monitoring was disabled is not counted. Source: the 1.x runtime.
"""

from __future__ import annotations

from reactor_trio.pacing.cadence import MIN_FPS, Cadence

FIRST_FPS = 16.0
#: A queue longer than this raises the rate until it is drained.
BACKLOG = 2


class BlockCadence(Cadence):
    """The frame rate of one blocking model.

    Args:
        fps: the declared rate, which is an upper limit; None if the model declares none.
        max_fps: the server's limit, above all others.
        fixed: use the declared rate as it is and measure nothing.
    """

    def __init__(self, fps: float | None, max_fps: float, *, fixed: bool = False) -> None:
        super().__init__(fps, max_fps)
        self._fixed = fixed
        self._estimate = FIRST_FPS
        self._since: float | None = None

    @property
    def fps(self) -> float:
        """The target rate in frames per second."""
        ceiling = min(self._declared if self._declared is not None else self.max_fps, self.max_fps)
        return ceiling if self._fixed else max(min(self._estimate, ceiling), min(MIN_FPS, ceiling))

    def pushed(self, now: float, frames: int, waiting: int) -> None:
        """Record a block of `frames` frames; `waiting` frames of earlier blocks are still queued."""
        if self._since is not None and now > self._since:
            backlog = waiting - 1 if waiting > BACKLOG else 0
            self._estimate = (frames + backlog) / (now - self._since)
        self._since = now

    def stood_still(self, began: float, ended: float) -> None:
        """Exclude the time from `began` to `ended`, in which the model could not push."""
        if self._since is not None:
            self._since += ended - min(ended, max(began, self._since))

    def disable(self) -> None:
        """Stop measuring until the next block: the model pauses on purpose."""
        self._since = None

    def enable(self, now: float) -> None:
        """Measure again: the time of the next block counts from `now`, unless it already counts from an earlier moment."""
        if self._since is None:
            self._since = now
