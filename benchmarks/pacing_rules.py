"""Plain rules of pacing, as pure functions of a trace, and the scores of what a viewer sees.

A trace is the time of each step of a model that makes `batch` frames in each. A rule says when a step begins and when each
frame is shown. All but `at_once` are ticks and a queue: the model fills the queue and waits while it is full, each tick
shows the oldest frame, and a tick that finds none shows nothing. What differs is the time between two ticks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: the rate of a model that declares none, before anything is known; and the highest
DEFAULT_FPS, MAX_FPS = 30.0, 60.0


@dataclass(frozen=True)
class Trace:
    """Step times of one model.

    Args:
        name: what it is.
        costs: seconds of each step.
        batch: frames of each step.
        fps: declared rate, or None.
        between: seconds that pass between two steps whatever the rule: handlers, the runtime's own work.
    """

    name: str
    costs: Sequence[float]
    batch: int = 1
    fps: float | None = None
    between: float = 0.0

    @property
    def ceiling(self) -> float:
        """The rate that was declared, or else the highest."""
        return self.fps or MAX_FPS

    @property
    def own_rate(self) -> float:
        """Frames a second that the model can make, in each tenth of the trace at most `ceiling`."""
        parts = [part for part in np.array_split(np.asarray(self.costs) + self.between, 10) if len(part)]
        return self.frames / sum(max(float(part.sum()), len(part) * self.batch / self.ceiling) for part in parts)

    @property
    def frames(self) -> int:
        """How many there are."""
        return len(self.costs) * self.batch


@dataclass(frozen=True)
class Played:
    """One entry a frame, in seconds: its step began, its step ended, it was shown."""

    began: list[float]
    ready: list[float]
    shown: list[float]


Rule = Callable[[Trace], Played]


def at_once(trace: Trace) -> Played:
    """Each frame is shown when it is ready, a batch in one go."""
    played, now = Played([], [], []), 0.0
    for cost in trace.costs:
        for moments, at in ((played.began, now), (played.ready, now + cost), (played.shown, now + cost)):
            moments.extend([at] * trace.batch)
        now += cost + trace.between
    return played


def fixed(places: int) -> Rule:
    """A tick each `1 / fps`, 30 if none is declared, before a queue of `places` frames."""
    return lambda trace: _ticked(trace, places, lambda before, sample: before)


def last_step(places: int) -> Rule:
    """The time between two ticks is that of the last step by its frames."""
    return lambda trace: _ticked(trace, places, lambda before, sample: sample)


def smoothed(places: int, alpha: float = 0.3) -> Rule:
    """The time between two ticks follows the steps by exponential smoothing."""
    return lambda trace: _ticked(trace, places, lambda before, sample: before + alpha * (sample - before))


def _ticked(trace: Trace, places: int, follow: Callable[[float, float], float]) -> Played:
    """Ticks from 0 on; `follow` makes of the seconds a frame so far and those of a new step the next ones."""
    places = max(places, trace.batch)
    played, queue = Played([], [], []), deque[tuple[float, float]]()
    least = 1 / trace.ceiling
    interval = 1 / (trace.fps or DEFAULT_FPS)
    tick, freed, begin, step, put = 0.0, 0.0, 0.0, 0, 0
    while len(played.shown) < trace.frames:
        while step < len(trace.costs) and (ready := begin + trace.costs[step]) <= tick and len(queue) < places:
            if put == 0:
                interval = max(least, follow(interval, trace.costs[step] / trace.batch))
            queue.append((begin, ready))
            put += 1
            if put == trace.batch:
                begin = max(ready, freed) + trace.between  # what was ready by the tick before had to wait for room
                step, put = step + 1, 0
        if queue:
            began, ready = queue.popleft()
            for moments, at in ((played.began, began), (played.ready, ready), (played.shown, tick)):
                moments.append(at)
        freed, tick = tick, tick + interval
    return played


def scores(trace: Trace, played: Played) -> dict[str, float]:
    """What a viewer sees, in milliseconds unless the name says otherwise.

    A freeze is a gap of more than thrice the mean one and more than 150 ms above it, as `getStats()` of WebRTC counts it.
    Delay is from the end of a step to its frame, command from the begin of a step to its first frame; the rate is in
    percent of what the model can make.
    """
    began, ready, shown = (1000 * np.asarray(moments) for moments in (played.began, played.ready, played.shown))
    gaps, command = np.diff(shown), (shown - began)[:: trace.batch]
    frozen = gaps[gaps > max(3 * gaps.mean(), gaps.mean() + 150)]
    return {
        "gap sd": float(gaps.std()),
        "gap change": float(np.sqrt(np.mean(np.diff(gaps) ** 2) / 2)),
        "gap p99": float(np.percentile(gaps, 99)),
        "freezes": len(frozen),
        "frozen": float(frozen.sum()),
        "delay p50": float(np.percentile(shown - ready, 50)),
        "delay p95": float(np.percentile(shown - ready, 95)),
        "command p50": float(np.percentile(command, 50)),
        "command p95": float(np.percentile(command, 95)),
        "rate %": 100 * (1000 / float(gaps.mean())) / trace.own_rate,
    }


#: what less of is better, where two that have the same in one may differ in another
AXES = ("gap sd", "gap change", "frozen", "delay p50")
TAILS = ("gap p99", "gap change", "frozen", "delay p95")
#: differences below this are none: a tenth of a millisecond
NONE = 0.1


def comparable(trace: Trace, row: dict[str, float]) -> bool:
    """Whether a rule kept to the declared rate: whoever does not has fewer frames to wait for."""
    return row["rate %"] * trace.own_rate <= 101 * trace.ceiling


def dominates(one: dict[str, float], other: dict[str, float], axes: tuple[str, ...] = AXES) -> bool:
    """Whether `one` is better than `other` on an axis and worse on none."""
    return all(one[axis] <= other[axis] for axis in axes) and any(one[axis] < other[axis] - NONE for axis in axes)
