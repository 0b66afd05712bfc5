"""How much may come in a time: a token bucket."""

from __future__ import annotations


class TokenBucket:
    """Holds tokens that come back at a rate, up to a number. At first it is full.

    Args:
        rate: tokens that come back in a second.
        most: tokens that it holds.
        now: seconds.
    """

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate = rate
        self._most = most
        self._left = most
        self._at = now

    def left(self, now: float) -> float:
        """The tokens at `now`; a negative number is a debt."""
        return min(self._most, self._left + (now - self._at) * self._rate)

    def take(self, tokens: float, now: float) -> None:
        """Take tokens, also those that are not there yet: that is a debt."""
        self._left, self._at = self.left(now) - tokens, now

    def paid_at(self) -> float:
        """When no debt is left, if nothing more is taken before; a time in the past if there is none."""
        return self._at - self._left / self._rate
