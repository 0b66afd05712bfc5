"""`FilmRoom`: the time of the film and the room for its bundles. It replaces the pacing of a live session.

A step begins at once, unless `ROOM` bundles wait to be taken. The declared rate, or its sound, gives a bundle its duration;
the time of the step does not. Therefore the same model makes the same film on every machine.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from reactor_trio.pacing import BlockCadence
from reactor_trio.pacing.cadence import DEFAULT_FPS

#: Sums of the same durations in another order differ by less than this many seconds.
EPSILON = 1e-6
#: Bundles that may wait to be taken.
ROOM = 8


class FilmRoom:
    """Counts the bundles that were made and taken. Only the model loop uses it, except `begins`. See `Room`.

    Nothing is shown, so no frame waits to be shown, and no report comes. A step and an `emit` have waited until the film is
    not `full` (`UnpacedTime.spend`), so what they have made finds room.

    Args:
        frames, seconds: how many bundles, or how many seconds of film, were requested; None: any number.

    Attributes:
        reached: called on the model loop, possibly several times, when all of them are made and queued.
    """

    reached: Callable[[], object]
    emitted = 0
    crowded = starves = False

    def __init__(self, frames: float | None, seconds: float | None) -> None:
        #: number of bundles made
        self.made = 0
        #: how often the model was idle since the newest bundle
        self.idled = 0
        #: seconds of film made
        self.seconds = 0.0
        #: start times of bundles that the I/O loop has not received yet; the loops share only the deque's atomic operations
        self.begins: deque[float] = deque()
        self._untaken = 0
        self._frames, self._most = math.inf if frames is None else frames, math.inf if seconds is None else seconds

    @property
    def full(self) -> bool:
        """Whether the sink must take a bundle first."""
        return self._untaken >= ROOM

    @property
    def enough(self) -> bool:
        """Whether all that was requested is made."""
        return self.is_enough(self.made, self.seconds)

    def is_enough(self, made: int, seconds: float) -> bool:
        """Whether `made` bundles, which end `seconds` into the film, are all that was requested. For both loops."""
        return made >= self._frames or seconds >= self._most - EPSILON

    def tell_enough(self) -> None:
        """Call `reached` if all that was requested is made."""
        if self.enough:
            self.reached()

    def idle(self, seconds: float) -> None:
        """Let the film's time pass while the model waits; the last picture stays."""
        self.seconds += seconds
        self.idled += 1

    def taken(self) -> None:
        """Record that the sink took a bundle."""
        self._untaken -= 1

    # ---- as a `Room` --------------------------------------------------------------------------------------------------

    def put(self, ready: float, duration: float, paced: bool = True, size: int = 0, emitted: int = 0) -> None:
        """Record a bundle. Its duration moves the film's time on."""
        self.begins.append(self.seconds)
        self.seconds += duration
        self.made += 1
        self.idled = 0
        self._untaken += 1

    def step_at(self, now: float, step_seconds: float, margin: float) -> float:
        """At once; if there is no room, when a bundle is taken."""
        self.tell_enough()
        return math.inf if self.full or self.enough else now

    def queue_at(self, now: float) -> float:
        """At once."""
        return now

    def emit_at(self, now: float) -> float:
        """At once."""
        return now

    def waiting(self, now: float) -> int:
        """No frame waits."""
        return 0

    def runs_dry(self, now: float) -> float:
        """At once."""
        return now

    def make_room_for(self, batch: int) -> None:
        """There is room for a batch of any size."""

    def handed(self, until: float) -> None:
        """Nothing is shown."""

    def shown(self, until: float) -> None:
        """Nothing is shown."""

    def stood_still(self, until: float) -> None:
        """Nothing is shown."""

    def retimed(self, interval: float) -> None:
        """A bundle keeps its duration."""

    def flushed(self, now: float) -> None:
        """A bundle stays in the film."""


class FilmCadence(BlockCadence):
    """The declared rate, by default 30, for models of every kind. It follows no measurement."""

    def __init__(self, fps: float | None, max_fps: float) -> None:
        super().__init__(DEFAULT_FPS if fps is None else fps, max_fps, fixed=True)

    def clamped(self, interval: float) -> float:
        """Return the interval of the rate."""
        return self.interval
