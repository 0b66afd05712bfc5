"""How early a pipeline starts a step: the margin between the end of a step and the moment its frames are needed.

A step that starts early computes from old commands; one that starts late leaves a gap in the picture. The margin is the
largest overrun of the recent steps beyond their predicted end, late starts included, plus a little time to reach the other
loop. It never exceeds one interval, and it is one interval until enough steps are known.
"""

from __future__ import annotations

from collections import deque

#: Steps that are remembered. About one step in this number may overrun more than all before it.
REMEMBERED = 120
#: Steps that must be known before the margin shrinks. The first `WARM_UP` steps do not count.
NEEDED = 10
WARM_UP = 2
#: Seconds that are always added, for the frame to reach the other loop.
LEAST = 0.0005


class StepMargin:
    """The step margin of one session."""

    def __init__(self) -> None:
        self._overruns: deque[float] = deque(maxlen=REMEMBERED)
        self._ignored = 0
        self._longest = 0.0

    def observe(self, overrun: float) -> None:
        """Record that a step ended `overrun` seconds later than planned; negative if earlier."""
        if self._ignored < WARM_UP:
            self._ignored += 1
            return
        self._overruns.append(overrun)
        self._longest = max(0.0, *self._overruns)

    def seconds(self, interval: float) -> float:
        """The margin, in seconds, when frames are `interval` seconds apart."""
        return interval if len(self._overruns) < NEEDED else min(interval, LEAST + self._longest)
