"""How far behind a loop is.

What a socket has received waits until the loop looks at its sockets again, and then for the turns of other tasks. On a
loaded loop that is long enough to look like a slow network. Whoever judges a network by when something was handled takes it
off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio

#: a wait for input of fewer seconds counts as none: the loop had something to do
_IDLE = 0.0002
#: the turns that input may need: one until the loop looks at its sockets, one to be read, and one to reach its task
_TURNS = 3


class LoopLag(trio.abc.Instrument):
    """Watches the turns of one loop.

    Use it within `watched`, on the loop that it watches.
    """

    def __init__(self) -> None:
        #: when the last turns began; after a wait for input all of them with the end of the wait
        self._began: deque[float] = deque([trio.current_time()] * _TURNS, maxlen=_TURNS)
        self._waits_since = 0.0

    def seconds(self) -> float:
        """At most so many seconds ago came the input that is handled now."""
        return trio.current_time() - self._began[0]

    def before_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        self._waits_since = trio.current_time()

    def after_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        now = trio.current_time()
        self._began.append(now)
        if now - self._waits_since > _IDLE:
            self._began.extend([now] * _TURNS)

    @contextmanager
    def watched(self) -> Iterator[LoopLag]:
        """Watch the turns of this loop."""
        trio.lowlevel.add_instrument(self)
        try:
            yield self
        finally:
            trio.lowlevel.remove_instrument(self)
