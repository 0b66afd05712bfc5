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
        self._observed = 0
        #: number and overrun of each remembered step that no later one has overrun as much as; the largest comes first
        self._longest: deque[tuple[int, float]] = deque()

    def observe(self, overrun: float) -> None:
        """Record that a step ended `overrun` seconds later than planned; negative if earlier."""
        self._observed += 1
        if self._observed <= WARM_UP:
            return
        longest = self._longest
        while longest and longest[-1][1] <= overrun:
            longest.pop()
        longest.append((self._observed, overrun))
        if longest[0][0] <= self._observed - REMEMBERED:
            longest.popleft()

    def seconds(self, interval: float) -> float:
        """The margin, in seconds, when frames are `interval` seconds apart."""
        if self._observed < WARM_UP + NEEDED:
            return interval
        return min(interval, LEAST + max(0.0, self._longest[0][1]))
