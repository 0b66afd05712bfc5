"""How fast a model runs that declares no rate: not faster than its frames can be encoded for those who watch.

What nobody gets is not worth computing, and takes from encoders the processor that they need: a model that ran three times
as fast as its encoder halved what arrived on two cores. So the ceiling follows the share of frames that were replaced
because every viewer's encoder was still at work. Far off, it comes down to what was taken; near by, it rises while that
share is below the one aimed at, faster the longer there is none, and falls while it is above. A link that carries less is
no reason: then frames are left out for its viewer, and the model goes on. A declared rate is left alone: it may be the
speed of a world.
"""

from __future__ import annotations

import math

#: What is looked at together: at least so many frames, and so many seconds, which a new encoder needs to get going.
FRAMES, SECONDS = 30, 0.25
#: The share of frames replaced that is aimed at: without any nobody would know that there is not room for more.
AIM = 0.04
#: The share from which on it comes down at once.
FAR = 0.25
#: The most by which it rises in one go.
HIGHER = 0.25


class FrameRateCap:
    """The ceiling of one session, in frames per second; infinite while every frame is taken."""

    def __init__(self) -> None:
        self.fps = math.inf
        self._since: float | None = None
        self._handed = 0
        self._outpaced = 0
        self._room = 0  # how often in a row none was replaced

    def handed(self, now: float, outpaced: bool) -> bool:
        """A frame was handed at `now`. `outpaced`: it replaced one that no viewer got, as encoders were busy.

        Returns whether `fps` has changed.
        """
        if self._since is None:
            self._since = now
            return False
        self._handed += 1
        self._outpaced += outpaced
        seconds = now - self._since
        if self._handed < FRAMES or seconds < SECONDS:
            return False
        before, rate, share = self.fps, self._handed / seconds, self._outpaced / self._handed
        self._room = 0 if self._outpaced else self._room + 1
        if share > FAR or (share > AIM and self.fps == math.inf):
            self.fps = rate * (1 - share)
        elif rate < self.fps / 2:
            self.fps = math.inf  # the model itself is slower
        elif self._room:
            self.fps *= 1 + min(AIM * self._room, HIGHER)
        else:
            self.fps *= 1 + AIM - share
        self._since, self._handed, self._outpaced = now, 0, 0
        return self.fps != before
