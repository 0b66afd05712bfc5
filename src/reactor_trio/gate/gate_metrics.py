"""The metrics of a gate, in Prometheus' exposition format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reactor_trio.edge.request_metrics import RequestMetrics, labelled
from reactor_trio.protocol.reasons import END_REASONS, EndReason
from reactor_trio.server.server_metrics import Buckets

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_ALLOCATION = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class GateMetrics(RequestMetrics):
    """The counters of one gate.

    Attributes:
        waiting, places: current number of clients in the queue, and of clients that have a place at a server.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting = self.places = 0
        self._lost = 0
        self._ended: dict[EndReason, int] = dict.fromkeys(END_REASONS, 0)
        self._allocation = Buckets(_ALLOCATION)

    def allocated(self, seconds: float) -> None:
        """Count a client that got a place `seconds` after it asked."""
        self._allocation.add(seconds)

    def ended(self, reason: EndReason) -> None:
        """Count a slot that is free again, and why its session ended."""
        self._ended[reason] += 1

    def lost(self) -> None:
        """Count a lease that ended with its server, or that no server could grant."""
        self._lost += 1

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, for the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        yield from self.families()
        yield GaugeMetricFamily("reactor_clients_waiting", "Clients in the queue", self.waiting)
        yield GaugeMetricFamily("reactor_places", "Clients that have a place at a replica", self.places)
        yield CounterMetricFamily("reactor_leases_lost", "Leases lost with their replica, or not to be had", self._lost)
        yield from labelled("reactor_leases_ended", "Places that are free again", "reason", self._ended)
        allocation = HistogramMetricFamily("reactor_allocation_seconds", "From asking for a place to having one")
        allocation.add_metric([], self._allocation.cumulative(), self._allocation.sum)
        yield allocation
