"""How long each frame of a pipeline is shown, so that a model whose steps differ is seen evenly.

A model that is slower than its declared rate begins a step as soon as the one before has ended. What a step took too long is
then late for good: the moments at which frames are ready wander, and no fixed rate can follow them. Shown as they come, the
frames jitter as the steps do; shown at the rate of the last step they jitter more, since half of them come late.

So playout follows the model as a phase-locked loop follows a signal. *Frequency*: the smoothed time from step to step, with
all that passes between two of them. *Phase*: a frame shall wait a little before it is shown, as in the jitter buffer of a
call: as much as a recent step overran, the few worst left out. Each step corrects a part of what the wait differs from that,
so nothing is fast-forwarded. A model whose steps take equally long waits for nothing, and one that is faster than its
declared rate never comes to this: its `StepMargin` starts steps early enough.

A step that overran by more than one interval counts for one interval unless the next does so, too: one stall, a gap that
nothing can hide, does not slow down what comes after it. A model that has become much faster is followed at once.
"""

from __future__ import annotations

from collections import deque

#: How much a step counts for the frequency, for each of its frames, and at most.
ALPHA = 0.1
MOST = 0.3
#: The part of a wait too long or too short that is corrected with each step.
GAIN = 0.15
#: Frames that wait too long are shown faster by this part at most.
FASTER = 0.25
#: Steps whose overruns are remembered, and how many of a hundred are left out as the worst.
REMEMBERED = 120
WORST = 3
#: The longest that a frame shall wait: in intervals, and in seconds, since who shows few frames has no use for more.
DELAY = 0.5
LONGEST = 0.03
#: How many such waits the model may be ahead of what is shown.
AHEAD = 3.0
#: The first steps: caches fill, kernels are chosen, and each that is faster shows how fast the model really is.
WARM_UP = 12


class PlayoutSmoother:
    """The tempo of one session. Times in seconds."""

    def __init__(self) -> None:
        #: from the begin of a step to the begin of the next, 0 while nothing is known
        self.cycle = 0.0
        #: how long a frame shall wait before it is shown
        self.delay = 0.0
        #: whether the newest step shows that those before it say nothing, the model being faster
        self.anew = False
        self._frames = 1
        self._observed = 0
        self._overran = self._halved = False
        self._overruns: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def ahead(self) -> float:
        """How far the model may be ahead of what is shown, at most one interval."""
        return min(AHEAD * self.delay, self.cycle / self._frames)

    def observe(self, seconds: float, frames: int) -> None:
        """A step of `frames` frames took `seconds`, with what passed since the one before unless that was a wait."""
        self._observed += 1
        self.cycle *= frames / self._frames
        self._frames = frames
        if self._observed <= 2:  # the first is often a compilation
            self.cycle, self.anew = seconds, self._observed == 2
            return
        overrun, interval, halved = seconds - self.cycle, self.cycle / frames, seconds < self.cycle / 2
        self._overruns.append(overrun)
        self.delay = min(max(self._usual_overrun(), 0.0), DELAY * interval, LONGEST)
        early = self._observed <= WARM_UP
        self.anew = overrun < 0 and (early or (halved and self._halved))
        weight = 1.0 if self.anew else MOST if early else min(ALPHA * frames, MOST)
        self.cycle += weight * (overrun if self._overran else min(overrun, interval))
        self._overran, self._halved = overrun > interval, halved

    def duration(self, wait: float) -> float:
        """Seconds that each frame of the newest step shall be shown, when the first of them is shown in `wait` seconds."""
        return (self.cycle + max(GAIN * (self.delay - wait), -FASTER * self.cycle)) / self._frames

    def _usual_overrun(self) -> float:
        longest = sorted(self._overruns, reverse=True)
        return longest[min(1 + len(longest) * WORST // 100, len(longest) - 1)]
