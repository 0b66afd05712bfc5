"""When frames are shown: one after the other, each for its duration, on an absolute time line.

A frame that is there in time is due when the one before it ends, however late the pacer woke up for it, so no error adds
up over hours. A frame that comes too late is due when it comes, and the line starts anew from it. A pacer that slept
through a whole frame starts anew too: no burst, no fast-forward.
"""

from __future__ import annotations

import math


class PresentationTimeline:
    """The time line of one session. Times in seconds, as `trio.current_time()` gives them."""

    def __init__(self) -> None:
        #: when the frame shown now ends; before the first frame, the infinite past
        self.until = -math.inf
        self._shown_from = -math.inf

    def due(self, ready: float, now: float, duration: float) -> float:
        """When a frame that was ready at `ready` and lasts `duration` seconds is to be shown, seen from `now`."""
        due = max(self.until, ready)
        return now if now - due >= duration else due

    def show(self, due: float, duration: float) -> None:
        """A frame is shown at `due` for `duration` seconds."""
        self._shown_from = due
        self.until = due + duration

    def retime(self, duration: float) -> None:
        """The frame shown now is to last `duration` seconds instead."""
        self.until = self._shown_from + duration
