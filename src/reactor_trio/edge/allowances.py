"""`Allowances`: how often each address may do something in a minute."""

from __future__ import annotations

from collections import OrderedDict

from reactor_trio.admission import TokenBucket

#: Addresses that are remembered. The one that was quiet longest is forgotten first.
REMEMBERED = 4096


class Allowances:
    """A token bucket for each address: `per_minute` at once, and then as many a minute. 0: no limit."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float:
        """Take one of `address`. Returns 0 if the address may have it, else the seconds until it may."""
        if not self.per_minute:
            return 0.0
        bucket = self._buckets.pop(address, None) or TokenBucket(self.per_minute, 60.0, now)
        self._buckets[address] = bucket
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.take(now)
