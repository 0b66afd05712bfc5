"""How long before it is needed a step should end.

A step that starts early computes from old commands; one that starts late leaves a gap in the picture. So the margin follows
what this model on this machine has needed: the most that a recent step took longer than predicted, its late start included,
and a little for the way to the other loop. It never exceeds one interval, and it is one interval until enough is known.
"""

from __future__ import annotations

from collections import deque

#: Steps that are remembered: about one in so many may need more than any of those before it.
REMEMBERED = 120
#: Steps that must be known before the margin shrinks. The first two are not among them: they are often a warm-up.
NEEDED = 10
WARM_UP = 2
#: Seconds that are always added, for the way to the other loop.
LEAST = 0.0005


class StepMargin:
    """The margin of one session's steps."""

    def __init__(self) -> None:
        self._overruns: deque[float] = deque(maxlen=REMEMBERED)
        self._ignored = 0
        self._longest = 0.0

    def observe(self, overrun: float) -> None:
        """A step ended `overrun` seconds later than was expected when it was planned; negative: earlier."""
        if self._ignored < WARM_UP:
            self._ignored += 1
            return
        self._overruns.append(overrun)
        self._longest = max(0.0, *self._overruns)

    def seconds(self, interval: float) -> float:
        """The margin, in seconds, when frames are `interval` seconds apart."""
        return interval if len(self._overruns) < NEEDED else min(interval, LEAST + self._longest)
