"""How far behind a loop is.

What a socket has received waits until the loop looks at its sockets again, and then for the turns of other tasks. On a
loaded loop that is long enough to look like a slow network. Whoever judges a network by when something was handled takes it
off. A loop that is late by `LATE`, such as that of a stopped process, has lost time (`lost_time`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from reactor_trio.concurrency.lost_time import lose

#: a wait for input of fewer seconds counts as none: the loop had something to do
_IDLE = 0.0002
#: seconds between two looks at whether the loop is late
TICK = 0.5
#: a loop that looks so many seconds later than it meant to has lost the time since its last turn
LATE = 0.5


class LoopLag(trio.abc.Instrument):
    """Watches the turns of one loop.

    Use it within `watched`, on the loop that it watches. It costs two calls in each turn, so it does little in them.
    """

    def __init__(self) -> None:
        self._now = trio.lowlevel.current_clock().current_time
        # When the last three turns began, and when the last wait for input did. Input may need three: one until the loop
        # looks at its sockets, one to be read, and one to reach its task.
        self._third = self._second = self._newest = self._waits_since = self._now()
        self._late_at = math.inf

    def seconds(self) -> float:
        """At most so many seconds ago came the input that is handled now."""
        return self._now() - self._third

    def before_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        self._waits_since = self._now()

    def after_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        now = self._now()
        if now > self._late_at:
            self._lose(now)
        if now - self._waits_since > _IDLE:
            self._third = self._second = self._newest = now
        else:
            self._third, self._second, self._newest = self._second, self._newest, now

    async def tick(self) -> None:
        """Task: notice lost time, which must be done within `watched`; until cancelled.

        What follows at once upon lost time is not lost. A model whose C code holds the interpreter's lock in each step makes
        the loop late all the time, and then deadlines must pass all the same.
        """
        on_time = True
        while True:
            due = self._now() + TICK
            self._late_at = due + LATE if on_time else math.inf
            await trio.sleep_until(due)
            if self._now() > self._late_at:  # another task of this turn has held it up
                self._lose(self._now())
            on_time = self._now() <= due + LATE

    def _lose(self, now: float) -> None:
        self._late_at = math.inf
        lose(now - self._newest)

    @contextmanager
    def watched(self) -> Iterator[LoopLag]:
        """Watch the turns of this loop."""
        trio.lowlevel.add_instrument(self)
        try:
            yield self
        finally:
            trio.lowlevel.remove_instrument(self)
