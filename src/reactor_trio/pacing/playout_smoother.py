"""How long each frame of a pipeline is shown, so that a model with uneven steps plays evenly.

A model that is slower than its declared rate begins each step when the previous one ends, so the time by which a step
overran is lost. The moments at which frames are ready wander, and no fixed rate can follow them. Frames shown as they come
jitter as the steps do; frames shown at the rate of the last step jitter more, since half of them come late.

Playout therefore follows the model as a phase-locked loop follows a signal. The *frequency* is the smoothed time from step
to step, with everything that happens in between. The *phase* is a short wait before a frame is shown, as in the jitter
buffer of a call: as long as recent steps overran, without the few worst ones. Each step corrects a part of the difference
between the actual wait and this one, so nothing is fast-forwarded. A model with equal steps waits for nothing. A model that
is faster than its declared rate does not use this: its `StepMargin` starts steps early enough.

A step that overran by more than one interval counts as one interval unless the next step overruns as much: a single stall is
a gap that nothing can hide, and must not slow down the frames after it. A model that has become much faster is followed at
once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

#: The weight of a step in the frequency: per frame, and at most.
ALPHA = 0.1
MOST = 0.3
#: The part of the phase error that each step corrects.
GAIN = 0.15
#: The largest part by which frames that wait too long are shortened.
FASTER = 0.25
#: Steps whose overruns are remembered, and the percentage that is left out as the worst.
REMEMBERED = 120
WORST = 3
#: The longest intended wait: in intervals, and in seconds, because a longer wait gains nothing at a low frame rate.
DELAY = 0.5
LONGEST = 0.03
#: How far the model may be ahead of what is shown, in multiples of the intended wait.
AHEAD = 3.0
#: The first steps, while caches fill and kernels are chosen. Each faster step replaces the frequency.
WARM_UP = 12


class PlayoutSmoother:
    """The playout smoother of one session. Times are in seconds."""

    def __init__(self) -> None:
        #: the smoothed time from the start of a step to the start of the next; 0 before the first step
        self.cycle = 0.0
        #: the intended wait of a frame before it is shown
        self.delay = 0.0
        #: whether the newest step has replaced the frequency, because the model has become faster
        self.anew = False
        self._frames = 1
        self._observed = 0
        self._overran = self._halved = False
        self._overruns: deque[float] = deque()  # in the order in which they came, and by size
        self._by_size: list[float] = []

    @property
    def ahead(self) -> float:
        """How far the model may be ahead of what is shown: at most one interval."""
        return min(AHEAD * self.delay, self.cycle / self._frames)

    def observe(self, seconds: float, frames: int) -> None:
        """Record that a step of `frames` frames took `seconds`, including the time since the previous step unless that was a
        wait.
        """
        self._observed += 1
        self.cycle *= frames / self._frames
        self._frames = frames
        if self._observed <= 2:  # the first is often a compilation
            self.cycle, self.anew = seconds, self._observed == 2
            return
        overrun, interval, halved = seconds - self.cycle, self.cycle / frames, seconds < self.cycle / 2
        usual = self._usual_overrun(overrun)
        self.delay = min(usual, DELAY * interval, LONGEST) if usual > 0 else 0.0
        early = self._observed <= WARM_UP
        self.anew = overrun < 0 and (early or (halved and self._halved))
        weight = 1.0 if self.anew else MOST if early else min(ALPHA * frames, MOST)
        self.cycle += weight * (overrun if self._overran else min(overrun, interval))
        self._overran, self._halved = overrun > interval, halved

    def duration(self, wait: float) -> float:
        """The duration in seconds of each frame of the newest step, if its first frame is shown in `wait` seconds."""
        return (self.cycle + max(GAIN * (self.delay - wait), -FASTER * self.cycle)) / self._frames

    def _usual_overrun(self, overrun: float) -> float:
        """Remember the overrun of a step; returns the largest one that is usual."""
        by_size = self._by_size
        if len(self._overruns) == REMEMBERED:
            del by_size[bisect_left(by_size, self._overruns.popleft())]
        self._overruns.append(overrun)
        insort(by_size, overrun)
        known = len(by_size)
        return by_size[max(known - 2 - known * WORST // 100, 0)]
