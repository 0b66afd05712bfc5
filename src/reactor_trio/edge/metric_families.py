"""Metric families from plain numbers, and `Buckets`, the histogram that counts into them.

The I/O loop counts each frame, so a counter is a plain number, and a histogram a list of numbers. They become families when
`/metrics` is requested. The Prometheus library is imported then: it brings an HTTP server along, and readiness must not wait
for it (40 ms).

Rejected: the counters of that library, which count under a lock. A frame costs 5.8 us in them and 1.5 us here, a scrape
5.0 ms and 3.3 ms. Each of their series has a second one with the time of its creation, and no
method returns their values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


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


def counter(name: str, text: str, counts: Any, labels: str = "") -> CounterMetricFamily:
    """Return a counter: of one number, or with `labels` of a number by label.

    Args:
        labels: the names of the labels, with spaces between.
        counts: a number, or a mapping from a label's value, or a tuple of the values of several labels, to a number.
    """
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels.split())
    for values, count in _by_labels(counts, labels):
        family.add_metric(values, count)
    return family


def gauge(name: str, text: str, numbers: Any, labels: str = "") -> GaugeMetricFamily:
    """Return a gauge. The arguments are those of `counter`."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels.split())
    for values, number in _by_labels(numbers, labels):
        family.add_metric(values, number)
    return family


def histogram(name: str, text: str, buckets: Any, labels: str = "") -> HistogramMetricFamily:
    """Return a histogram. The arguments are those of `counter`, with `Buckets` as numbers."""
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, text, labels=labels.split())
    for values, each in _by_labels(buckets, labels):
        family.add_metric(values, each.cumulative(), each.sum)
    return family


def _by_labels(numbers: Any, labels: str) -> list[tuple[list[str], Any]]:
    if not labels:
        return [([], numbers)]
    by_label: Mapping[str | tuple[str, ...], Any] = numbers
    return [([values] if isinstance(values, str) else list(values), number) for values, number in by_label.items()]
