"""A cap on the frame rate of a model that declares none: no faster than the viewers' encoders keep up.

Frames that no viewer receives waste compute, and they take processor time from the encoders: on two cores, a model that ran
three times as fast as its encoder halved the frames that arrived. The cap therefore follows the share of frames that were
replaced because every viewer's encoder was busy:

* If the share is above `FAR`, or if there is no cap yet and the share is above `AIM`, the cap drops to the rate that was
  delivered.
* Otherwise the cap rises while the share is below `AIM`, faster the longer no frame was replaced, and falls while the share
  is above it.

A slow link does not lower the cap: the server then drops frames for that viewer, and the model keeps its rate. A declared
rate is never capped, since it may be the speed of a simulated world.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

#: Whether an encoder keeps up, by what happens to a new frame. "kept_up": no older frame was waiting. "outpaced": the new
#: frame replaced one that only the encoder held up. "unknown": the link held it up, or the viewer has no encoder.
EncoderPace: TypeAlias = Literal["kept_up", "outpaced", "unknown"]

#: The shortest measurement window: frames, and seconds. A new encoder needs that long to get up to speed.
FRAMES, SECONDS = 30, 0.25
#: The intended share of replaced frames. It is above 0, because at 0 the encoders might have room for more.
AIM = 0.04
#: Above this share the cap drops at once.
FAR = 0.25
#: The largest rise in one step, as a fraction of the cap.
HIGHER = 0.25


class FrameRateCap:
    """The frame rate cap of one session, in frames per second; infinite while the encoders take every frame."""

    def __init__(self) -> None:
        self.fps = math.inf
        self._since: float | None = None
        self._handed = 0
        self._outpaced = 0
        self._room = 0  # windows in a row without a replaced frame

    def handed(self, now: float, outpaced: bool) -> bool:
        """Record a frame handed to the encoders at `now`.

        Args:
            outpaced: the frame replaced one that no viewer received, because every encoder was busy.

        Returns True if `fps` has changed.
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
