"""A forecast of playout, made on the model's side: how far the model may run ahead of what is shown.

Two rules use it. A *pipeline* starts each step just in time: when the queued frames and the one on screen last no longer
than the step will take, plus a margin (see `StepMargin`). A fast model thus computes from fresh commands, and a slow one
never waits. A *run loop* fills the buffer and then waits in `emit()`: the frame on screen and those behind it fill
`capacity` places.

Playout happens on the other loop, by `PresentationTimeline`. Its rule is simple enough to repeat here: a frame is shown when
the previous one ends, or when it was ready if that is later. The model's side therefore computes when a place becomes free,
and needs no wake-up for it. The playout side still reports the frames that it has shown, and it reports at once if it did
not follow the rule. With `assume=False` the forecast relies on these reports alone, for a playout that waits for others.
"""

from __future__ import annotations

import math
from collections import deque

#: Times that are sums of the same numbers in another order differ by less than this many seconds.
EPSILON = 1e-9
#: Bytes of frames, and how many times the capacity, that may be queued while playout reports nothing. When both are passed,
#: the model waits for a report.
MOST_UNSHOWN, MOST_AHEAD = 256 * 1024 * 1024, 4
#: Bytes of emitted frames that may be queued while the client pauses the session. Further ones are dropped: an `emit` that
#: waited for room would keep the command that ends the pause from being applied.
MOST_HELD = 64 * 1024 * 1024


class PlayoutForecast:
    """The forecast for the frames of one session that were made and are not yet shown to their end.

    Args:
        capacity: how many frames may be queued; it grows to the size of a batch.
        assume: count a frame as shown when it is due, before playout reports it.
    """

    def __init__(self, capacity: int, *, assume: bool = True) -> None:
        self._capacity = capacity
        self._assume = assume
        self.capacity = capacity
        #: when each frame was ready, its duration, whether it is paced, its bytes, and those of its bytes that were emitted:
        #: put, and not yet reported as shown
        self._queued: deque[tuple[float, float, bool, int, int]] = deque()
        #: bytes of all these frames, and of the emitted ones
        self.unshown = self.emitted = 0
        self.crowded = False
        #: number and bytes of flushed frames, until playout reports that it has dropped them
        self._flushed = self._flushed_bytes = 0
        self._until = -math.inf  # when the newest frame reported as shown ends

    def make_room_for(self, batch: int) -> None:
        """Set the capacity so that the buffer holds at least one batch of `batch` frames."""
        self.capacity = max(self._capacity, batch)

    def put(self, ready: float, duration: float, paced: bool = True, size: int = 0, emitted: int = 0) -> None:
        """Record a queued frame that was ready at `ready` and lasts `duration` seconds. `paced` is False if audio fixes its
        duration. The frame has `size` bytes; `emitted` is the same, or 0 if a step made it.
        """
        self._queued.append((ready, duration, paced, size, emitted))
        self.unshown += size
        self.crowded = self.unshown > MOST_UNSHOWN
        self.emitted += emitted

    def handed(self, until: float) -> None:
        """Record that the oldest queued frame is shown now, until `until`."""
        if self._queued:
            _ready, _duration, _paced, size, emitted = self._queued.popleft()
            self.unshown -= size
            self.crowded = self.unshown > MOST_UNSHOWN
            self.emitted -= emitted
        self._until = until

    @property
    def starves(self) -> bool:
        """Whether so much is queued that the model has to wait for a report of playout."""
        return self.crowded and len(self._queued) + self._flushed > MOST_AHEAD * self.capacity

    def shown(self, until: float) -> None:
        """Record that the frame on screen now ends at `until`. Playout reports this after each flush, too."""
        self._until = until
        self.unshown -= self._flushed_bytes
        self.crowded = self.unshown > MOST_UNSHOWN
        self._flushed = self._flushed_bytes = 0

    def stood_still(self, until: float) -> None:
        """Record that playout stood still until this time: no frame was shown since the newest reported one."""
        self._until = max(self._until, until)

    def retimed(self, interval: float) -> None:
        """Give each queued paced frame the duration `interval`, in seconds."""
        self._queued = deque(
            (ready, interval if paced else lasts, paced, size, emitted)
            for ready, lasts, paced, size, emitted in self._queued
        )

    def flushed(self, now: float) -> None:
        """Forget the queued frames, except the one that is on screen at `now`."""
        _waiting, _lasts, self._until = self._at(now)
        self._flushed, self._flushed_bytes, self.emitted = self._flushed + len(self._queued), self.unshown, 0
        self._queued.clear()

    def waiting(self, now: float) -> int:
        """The number of frames queued behind the one on screen."""
        return self._at(now)[0]

    def step_at(self, now: float, step_seconds: float, margin: float) -> float:
        """When a pipeline's next step may start, so that it ends `margin` seconds before its frames are needed. It takes
        `step_seconds`.
        """
        waiting, lasts, until = self._at(now)
        at = (until if until > now else now) + lasts - step_seconds - margin - EPSILON
        return max(at, self._next_shown(until)) if waiting >= self.capacity else at

    def runs_dry(self, now: float) -> float:
        """When the last queued frame ends."""
        _waiting, lasts, until = self._at(now)
        return (until if until > now else now) + lasts

    def queue_at(self, now: float) -> float:
        """When the queue has room for a pipeline's frame."""
        waiting, _lasts, until = self._at(now)
        return now if waiting < self.capacity else self._next_shown(until)

    def emit_at(self, now: float) -> float:
        """When the buffer has room for a run loop's frame; the frame on screen takes a place too."""
        waiting, _lasts, until = self._at(now)
        if waiting >= self.capacity:
            return self._next_shown(until)
        if waiting + 1 > self.capacity - (until > now + EPSILON):
            return until
        return now

    def _at(self, now: float) -> tuple[int, float, float]:
        """How many frames wait at `now`, for how long they last together, and when the frame on screen ends."""
        waiting, lasts, until = 0, 0.0, self._until
        soon = now + EPSILON
        for ready, duration, _, _, _ in self._queued:
            due = ready if ready > until else until
            if self._assume and not waiting and due <= soon:
                until = due + duration
            else:
                waiting += 1
                lasts += duration
        return waiting, lasts, until

    def _next_shown(self, until: float) -> float:
        return until if self._assume else math.inf
