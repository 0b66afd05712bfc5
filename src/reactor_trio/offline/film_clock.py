"""`FilmClock`: the time of the film and the room for its bundles. It replaces the pacing of a live session.

A step begins at once, unless `room` bundles wait to be taken. The declared rate, or its sound, gives a bundle its duration;
the time of the step does not. Therefore the same model makes the same film on every machine.
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
    """Counts the bundles that were made and taken. Only the model loop uses it, except `begins`.

    Args:
        room: bundles that may wait for the sink before the model waits.
        frames, seconds: how many bundles, or how many seconds of film, were requested.
        reached: called on the model loop, possibly several times, when all of them are made and queued.
    """

    def __init__(
        self, room: int, frames: float = math.inf, seconds: float = math.inf, reached: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(room, assume=False)
        #: number of bundles made
        self.made = 0
        #: seconds of film made
        self.seconds = 0.0
        #: start times of bundles that the I/O loop has not received yet; the loops share only the deque's atomic operations
        self.begins: deque[float] = deque()
        self._room = room
        self._waiting = 0
        self._frames, self._most, self._reached = frames, seconds, reached

    @property
    def full(self) -> bool:
        """Whether the sink must take a bundle first."""
        return self._waiting >= self._room

    @property
    def enough(self) -> bool:
        """Whether all that was requested is made."""
        return self.made >= self._frames or self.seconds >= self._most - EPSILON

    def tell_enough(self) -> None:
        """Call `reached` if all that was requested is made."""
        if self.enough:
            self._reached()

    def idle(self, seconds: float) -> None:
        """Let the film's time pass while the model waits; the last picture stays."""
        self.seconds += seconds

    def taken(self) -> None:
        """Record that the sink took a bundle."""
        self._waiting -= 1

    # ---- as a PlayoutForecast -----------------------------------------------------------------------------------------

    def put(self, ready: float, duration: float, paced: bool = True) -> None:
        """Record a bundle. Its duration moves the film's time on."""
        self.begins.append(self.seconds)
        self.seconds += duration
        self.made += 1
        self._waiting += 1

    def step_at(self, now: float, step_seconds: float, step_margin: float) -> float:
        """At once; if there is no room, when a bundle is taken."""
        self.tell_enough()
        return math.inf if self.full or self.enough else -math.inf

    def queue_at(self, now: float) -> float:
        """At once: a step begins only if there is room."""
        return now

    def emit_at(self, now: float) -> float:
        """At once: a run loop has waited for room before, so that `drop` never drops."""
        return now

    def waiting(self, now: float) -> int:
        """The number of bundles that the sink has not taken."""
        return self._waiting

    def flushed(self, now: float) -> None:
        """Do nothing: a flush removes nothing from a film."""

    def handed(self, until: float) -> None:
        """Do nothing: `taken` counts."""

    def shown(self, until: float) -> None:
        """Do nothing: `taken` counts."""


class FilmCadence(Cadence):
    """The declared rate, by default 30. It measures nothing."""

    def observe(self, seconds: float, frames: int) -> None:
        """Ignore the time of a step."""

    def clamped(self, interval: float) -> float:
        """Return the interval of the rate."""
        return self.interval


class FilmBlockCadence(BlockCadence):
    """The cadence of a blocking model: the declared rate, by default 30. It measures nothing."""

    @property
    def fps(self) -> float:
        """The declared rate, by default 30."""
        return min(self._declared if self._declared is not None else DEFAULT_FPS, self.max_fps)

    def pushed(self, now: float, frames: int, waiting: int) -> None:
        """Ignore when a block comes."""
