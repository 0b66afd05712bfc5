"""When frames are shown: one after the other, each for its duration, on an absolute timeline.

A frame that is ready in time is due when the previous one ends, however late the pacer woke up for that one, so errors do
not add up over hours. A frame that is late is due at once, and the timeline continues from there. A pacer that overslept a
whole frame also continues from the present: frames are never shown in a burst to catch up.
"""

from __future__ import annotations

import math


class PresentationTimeline:
    """The presentation timeline of one session. Times are in seconds, as from `trio.current_time()`."""

    def __init__(self) -> None:
        #: when the frame on screen ends; minus infinity before the first frame
        self.until = -math.inf
        self._shown_from = -math.inf

    def due(self, ready: float, now: float, duration: float) -> float:
        """When to show a frame that was ready at `ready` and lasts `duration` seconds, given that it is `now`."""
        due = max(self.until, ready)
        return now if now - due >= duration else due

    def show(self, due: float, duration: float) -> None:
        """Record that a frame is shown from `due` for `duration` seconds."""
        self._shown_from = due
        self.until = due + duration

    def stand_still(self, until: float) -> None:
        """Record that the frame on screen stayed there until this time, if there is one."""
        self.until = max(self.until, until)

    def retime(self, duration: float) -> None:
        """Change the duration of the frame on screen."""
        self.until = self._shown_from + duration
