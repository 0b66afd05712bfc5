"""How far the model may run ahead of what is shown.

Two rules. A *pipeline* starts a step just in time: when what is queued and shown lasts no longer than the step will take,
plus a margin (see `StepMargin`). So a fast model computes from fresh commands, and a slow one never waits. A *run loop*
fills the buffer and then waits in `emit()`: the frame on screen and those behind it fill `capacity` places.

The frames are played on the other loop, by `PresentationTimeline`, whose rule is simple enough to be followed from here: a
frame is shown when the one before it ends, or when it was ready if that is later. So the model's side knows without being
told when a place becomes free, and need not be woken for it. The other side says which frames it has shown all the same, and
at once if one was not shown when that rule says; `assume=False` is for a player that waits for others, whose word must be
awaited.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

#: Times that are sums of the same numbers in another order differ by less than this many seconds.
EPSILON = 1e-9


@dataclass(slots=True)
class _Queued:
    ready: float
    duration: float
    paced: bool


class PlayoutForecast:
    """What the model side knows of the frames it has made and that are not played to their end.

    Args:
        capacity: frames that may be queued; grows to the size of a batch.
        assume: whether a frame may be taken as shown when it is due, before the word that it was.
    """

    def __init__(self, capacity: int, *, assume: bool = True) -> None:
        self._capacity = capacity
        self._assume = assume
        self.capacity = capacity
        self._queued: deque[_Queued] = deque()  # put, and not yet said to be shown
        self._until = -math.inf  # when the newest frame that was said to be shown ends

    def make_room_for(self, batch: int) -> None:
        """A batch is to be put: the buffer holds at least one batch."""
        self.capacity = max(self._capacity, batch)

    def put(self, ready: float, duration: float, paced: bool = True) -> None:
        """A frame ready at `ready` that lasts `duration` seconds was queued; not `paced`: audio fixes its duration."""
        self._queued.append(_Queued(ready, duration, paced))

    def handed(self, until: float) -> None:
        """The oldest queued frame is shown, until `until`."""
        if self._queued:
            self._queued.popleft()
        self._until = until

    def shown(self, until: float) -> None:
        """The frame on screen ends at `until`."""
        self._until = until

    def retimed(self, interval: float) -> None:
        """Each queued frame whose duration is not fixed is to last `interval` seconds."""
        for frame in self._queued:
            if frame.paced:
                frame.duration = interval

    def flushed(self, now: float) -> None:
        """What was queued is gone, but for what is on screen by now."""
        _waiting, self._until = self._at(now)
        self._queued.clear()

    def waiting(self, now: float) -> int:
        """Frames that are queued behind the one on screen."""
        return len(self._at(now)[0])

    def step_at(self, now: float, step_seconds: float, margin: float) -> float:
        """When a pipeline's next step may start: it takes `step_seconds`, and shall end `margin` before it is needed."""
        waiting, until = self._at(now)
        room = self._next_shown(until) if len(waiting) >= self.capacity else -math.inf
        return max(_runs_dry(waiting, until, now) - step_seconds - margin - EPSILON, room)

    def runs_dry(self, now: float) -> float:
        """When all that is queued and shown has been shown to its end."""
        return _runs_dry(*self._at(now), now)

    def queue_at(self, now: float) -> float:
        """When a pipeline's frame finds room behind those that wait."""
        waiting, until = self._at(now)
        return now if len(waiting) < self.capacity else self._next_shown(until)

    def emit_at(self, now: float) -> float:
        """When a run loop's frame finds room, the frame on screen counted."""
        waiting, until = self._at(now)
        if len(waiting) >= self.capacity:
            return self._next_shown(until)
        if len(waiting) + 1 > self.capacity - (until > now + EPSILON):
            return until
        return now

    def _at(self, now: float) -> tuple[list[_Queued], float]:
        """The frames that wait at `now`, and when the one on screen ends."""
        until, shown = self._until, 0
        if self._assume:
            for frame in self._queued:
                due = max(until, frame.ready)
                if due > now + EPSILON:
                    break
                until, shown = due + frame.duration, shown + 1
        return list(self._queued)[shown:], until

    def _next_shown(self, until: float) -> float:
        return until if self._assume else math.inf


def _runs_dry(waiting: list[_Queued], until: float, now: float) -> float:
    return max(until, now) + sum(frame.duration for frame in waiting)
