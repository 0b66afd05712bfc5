"""How fast a model runs that declares no rate: not faster than its frames can be encoded for those who watch.

What nobody gets is not worth computing, and takes from encoders the processor that they need: a model that ran three times
as fast as its encoder halved what arrived on two cores. So while frames are replaced because every viewer's encoder is still
at work, the ceiling comes down to what was taken; while none is, it rises step by step. A link that carries less is no
reason: then frames are left out for its viewer, and the model goes on. A declared rate is left alone: it may be the speed
of a world.
"""

from __future__ import annotations

import math

#: Frames that are looked at together.
WINDOW = 30
#: Of these, at most so many may be replaced unseen without a consequence; from none at all on, the ceiling rises.
TOLERATED = 3
#: By what it rises.
HIGHER = 1.05


class Ceiling:
    """The ceiling of one session, in frames per second; infinite while every frame is taken."""

    def __init__(self) -> None:
        self.fps = math.inf
        self._since: float | None = None
        self._handed = 0
        self._outpaced = 0

    def handed(self, now: float, outpaced: bool) -> bool:
        """A frame was handed at `now`; `outpaced`: one before it was replaced at every viewer, whose encoders were busy.

        Returns whether `fps` has changed.
        """
        if self._since is None:
            self._since = now
            return False
        self._handed += 1
        self._outpaced += outpaced
        if self._handed < WINDOW or now <= self._since:
            return False
        before, rate = self.fps, self._handed / (now - self._since)
        if self._outpaced > TOLERATED:
            self.fps = rate * (1 - self._outpaced / self._handed)
        elif self._outpaced == 0 and self.fps < math.inf:
            self.fps = self.fps * HIGHER if rate > self.fps / HIGHER else math.inf
        self._since, self._handed, self._outpaced = now, 0, 0
        return self.fps != before
