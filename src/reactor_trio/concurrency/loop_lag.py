"""How far behind a loop is.

What a socket has received waits until the loop looks at its sockets again, and then for the turns of other tasks. On a
loaded loop that is long enough to look like a slow network. Whoever judges a network by when something was handled takes it
off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

#: a wait for input of fewer seconds counts as none: the loop had something to do
_IDLE = 0.0002


class LoopLag(trio.abc.Instrument):
    """Watches the turns of one loop.

    Use it within `watched`, on the loop that it watches. It costs two calls in each turn, so it does little in them.
    """

    def __init__(self) -> None:
        self._now = trio.lowlevel.current_clock().current_time
        # When the last three turns began, and when the last wait for input did. Input may need three: one until the loop
        # looks at its sockets, one to be read, and one to reach its task.
        self._third = self._second = self._newest = self._waits_since = self._now()

    def seconds(self) -> float:
        """At most so many seconds ago came the input that is handled now."""
        return self._now() - self._third

    def before_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        self._waits_since = self._now()

    def after_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        now = self._now()
        if now - self._waits_since > _IDLE:
            self._third = self._second = self._newest = now
        else:
            self._third, self._second, self._newest = self._second, self._newest, now

    @contextmanager
    def watched(self) -> Iterator[LoopLag]:
        """Watch the turns of this loop."""
        trio.lowlevel.add_instrument(self)
        try:
            yield self
        finally:
            trio.lowlevel.remove_instrument(self)
