"""How far the model may run ahead of what is shown.

Two rules. A *pipeline* starts a step just in time: when what is queued and shown lasts no longer than the step will take,
plus one interval of safety. So a fast model computes from fresh commands, and a slow one never waits. A *run loop* fills
the buffer and then waits in `emit()`: the frame on screen and those behind it fill `capacity` places.

The times come from the other loop, which plays the frames: `handed` says which frame is shown and until when.
"""

from __future__ import annotations

import math
from collections import deque

#: Times that are sums of the same numbers in another order differ by less than this many seconds.
EPSILON = 1e-9


class Lookahead:
    """What the model side knows of the frames it has made and that are not played to their end.

    Args:
        capacity: frames that may be queued; grows to the size of a batch.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.capacity = capacity
        self._queued: deque[tuple[float, bool]] = deque()  # of frames put and not yet handed: duration, paced
        #: when the frame on screen ends
        self.until = -math.inf

    def make_room_for(self, batch: int) -> None:
        """A batch is to be put: the buffer holds at least one batch."""
        self.capacity = max(self._capacity, batch)

    def put(self, duration: float, paced: bool = True) -> None:
        """A frame that is to be shown for `duration` seconds was queued; not `paced`: audio fixes its duration."""
        self._queued.append((duration, paced))

    def handed(self, until: float) -> None:
        """The oldest queued frame is shown now, until `until`."""
        if self._queued:
            self._queued.popleft()
        self.until = until

    def shown(self, until: float) -> None:
        """The frame on screen ends at `until`."""
        self.until = until

    def retimed(self, interval: float) -> None:
        """Each queued frame whose duration is not fixed is to last `interval` seconds."""
        self._queued = deque((interval if paced else duration, paced) for duration, paced in self._queued)

    def flushed(self) -> None:
        """What was queued is gone."""
        self._queued.clear()

    def step_at(self, now: float, step_seconds: float, interval: float) -> float:
        """When a pipeline's next step, which takes `step_seconds`, may start.

        Infinity if that is not before the next queued frame is shown: `handed` will tell, and needs no timer beside it.
        """
        if len(self._queued) >= self.capacity:
            return math.inf
        runs_dry = max(self.until, now) + sum(duration for duration, _paced in self._queued)
        start = runs_dry - step_seconds - interval - EPSILON
        if start > now and self._queued and start >= self.until - 2 * EPSILON:
            return math.inf
        return start

    def queue_at(self, now: float) -> float:
        """When a pipeline's frame finds room behind those that wait; infinity until a frame is handed."""
        return now if len(self._queued) < self.capacity else math.inf

    def emit_at(self, now: float) -> float:
        """When a run loop's frame finds room, the frame on screen counted; infinity until a frame is handed."""
        if len(self._queued) >= self.capacity:
            return math.inf
        if len(self._queued) + 1 > self.capacity - (self.until > now + EPSILON):
            return self.until
        return now
