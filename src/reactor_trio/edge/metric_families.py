"""Metric families of plain numbers, for a registry of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Buckets:
    """A histogram with the given upper bounds, as plain numbers."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each upper bound with the number of values that are not above it."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, accumulate(self._counts), strict=True))


def labelled(name: str, text: str, label: str, counts: Any) -> Iterator[Metric]:
    """Yield a counter with one sample for each value of `label`; or of several labels, whose names have spaces between."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=label.split())
    for value, count in counts.items():
        family.add_metric([value] if isinstance(value, str) else value, count)
    yield family
