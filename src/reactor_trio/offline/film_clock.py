"""The film's time and the sink's room, in place of the pacing of a live session.

A step begins at once, unless `room` bundles wait for whoever takes them. Each bundle lasts what the declared rate or its
sound says, whatever the step took, so the same model makes the same film on every machine.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from reactor_trio.pacing import BlockCadence, Cadence, PlayoutForecast
from reactor_trio.pacing.cadence import DEFAULT_FPS

#: Sums of the same durations in another order differ by less than this many seconds.
EPSILON = 1e-6


class FilmClock(PlayoutForecast):
    """Counts what was made and what was taken. On the model loop, but for `begins`.

    Args:
        room: bundles that may wait for the sink before the model does.
        frames, seconds: how many bundles, or how much of the film, are enough.
        reached: told on the model loop, when all that was asked for is made and on its way; more than once.
    """

    def __init__(
        self, room: int, frames: float = math.inf, seconds: float = math.inf, reached: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(room, assume=False)
        #: bundles that were made
        self.made = 0
        #: seconds of the film that were made
        self.seconds = 0.0
        #: when each bundle begins that the other loop has not seen yet; only the deque's atomic operations are shared
        self.begins: deque[float] = deque()
        self._room = room
        self._waiting = 0
        self._frames, self._most, self._reached = frames, seconds, reached

    @property
    def full(self) -> bool:
        """Whether the sink must take something first."""
        return self._waiting >= self._room

    @property
    def enough(self) -> bool:
        """Whether all that was asked for is made."""
        return self.made >= self._frames or self.seconds >= self._most - EPSILON

    def tell_enough(self) -> None:
        """Say so if it is."""
        if self.enough:
            self._reached()

    def idle(self, seconds: float) -> None:
        """The model waits: the picture stands still."""
        self.seconds += seconds

    def taken(self) -> None:
        """The sink took a bundle."""
        self._waiting -= 1

    # ---- what the session's half asks ---------------------------------------------------------------------------------

    def put(self, ready: float, duration: float, paced: bool = True) -> None:
        """A bundle was made."""
        self.begins.append(self.seconds)
        self.seconds += duration
        self.made += 1
        self._waiting += 1

    def step_at(self, now: float, step_seconds: float, step_margin: float) -> float:
        """At once, or when something was taken."""
        self.tell_enough()
        return math.inf if self.full or self.enough else -math.inf

    def queue_at(self, now: float) -> float:
        """At once: a step begins only where there is room."""
        return now

    def emit_at(self, now: float) -> float:
        """At once: whoever emits has waited for room before, so `drop` finds nothing to drop."""
        return now

    def waiting(self, now: float) -> int:
        """Bundles that the sink has not taken."""
        return self._waiting

    def flushed(self, now: float) -> None:
        """A film has no queue that could be dropped: what was made is in it."""

    def handed(self, until: float) -> None:
        """See `taken`."""

    def shown(self, until: float) -> None:
        """See `taken`."""


class FilmCadence(Cadence):
    """The declared rate, 30 if there is none; nothing is measured."""

    def observe(self, seconds: float, frames: int) -> None:
        """What a step took says nothing."""

    def clamped(self, interval: float) -> float:
        """The interval of the rate."""
        return self.interval


class FilmBlockCadence(BlockCadence):
    """The same for a blocking model."""

    @property
    def fps(self) -> float:
        """The declared rate, 30 if there is none."""
        return min(self._declared if self._declared is not None else DEFAULT_FPS, self.max_fps)

    def pushed(self, now: float, frames: int, waiting: int) -> None:
        """When a block comes says nothing."""
