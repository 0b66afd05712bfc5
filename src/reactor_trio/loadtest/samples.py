"""A bounded number of samples, and their distribution."""

from __future__ import annotations

import math
from array import array

import msgspec
import numpy as np

#: most samples kept; beyond, every second one is kept, then every fourth, and so on
MOST = 1 << 18


class Distribution(msgspec.Struct, frozen=True):
    """The distribution of `n` samples; None without samples."""

    n: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Samples:
    """Samples of one figure. Count and maximum are exact; percentiles are those of the kept samples: all, up to `most`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept = array("d")
        self._every = 1
        self._count = 0
        self._largest = -math.inf

    def add(self, value: float) -> None:
        """Add a sample."""
        if self._count % self._every == 0:
            self._kept.append(value)
            if len(self._kept) > self._most:
                self._kept = self._kept[::2]
                self._every *= 2
        self._count += 1
        self._largest = max(self._largest, value)

    def distribution(self) -> Distribution:
        """Return the distribution of all samples until now."""
        if not self._count:
            return Distribution()
        p50, p95, p99 = (float(value) for value in np.percentile(self._kept, (50, 95, 99)))
        return Distribution(self._count, p50, p95, p99, self._largest)
