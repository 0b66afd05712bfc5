"""`TokenBucket`: so many at once, and then a steady rate."""

from __future__ import annotations


class TokenBucket:
    """A bucket that is full at first. It fills again at a steady rate, from empty to full in `seconds`.

    The caller gives the time of each call in seconds. The time may not go back.

    Args:
        most: tokens in a full bucket.
        seconds: in which an empty bucket fills.
    """

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, most: float, seconds: float, now: float) -> None:
        self._most, self._rate = most, most / seconds
        self._left, self._at = most, now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Take `tokens`. Returns 0 if they were there; otherwise takes none, and returns the seconds until they will be."""
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._rate), now
        if self._left < tokens:
            return (tokens - self._left) / self._rate
        self._left -= tokens
        return 0.0

    def owe(self, now: float, tokens: float) -> float:
        """Take `tokens`, also those that are not there yet. Returns the seconds until none is owed any more."""
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._rate) - tokens, now
        return max(0.0, -self._left / self._rate)
