"""`LinePause`: after a line of one kind, the log gets no other line of that kind for some seconds."""

from __future__ import annotations

import math

import trio


class LinePause:
    """Decides when the log gets a line of one kind, and counts those that it does not get. For one loop.

    Args:
        seconds: the pause between two lines.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = -math.inf
        self._left_out = 0

    def ending(self) -> str | None:
        """Call it for each event. Return None if the log gets no line for it, else how the line ends.

        The ending says how many events have had no line since the last one. It is empty if each had one.
        """
        now = trio.current_time()
        if now < self._until:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        self._until = now + self._seconds
        return f"; {left_out} more since the last such line" if left_out else ""
