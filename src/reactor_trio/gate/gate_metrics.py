"""The metrics of a gate, in Prometheus' exposition format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from reactor_trio.edge.metric_families import Buckets, counter, gauge, histogram
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.protocol.reasons import END_REASONS, EndReason

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_ALLOCATION = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class GateMetrics(RequestMetrics):
    """The counters of one gate, which its `Allocation` makes and updates.

    Args:
        clients: returns how many clients wait in the queue, and how many have a lease.

    Attributes:
        lost: leases that ended with their server, or that no server could grant.
        ended: slots that are free again, by the reason of the session's end.
        allocation: seconds from a client's request to its lease.
    """

    def __init__(self, clients: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._clients = clients
        self.lost = 0
        self.ended: dict[EndReason, int] = dict.fromkeys(END_REASONS, 0)
        self.allocation = Buckets(_ALLOCATION)

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, for the registry."""
        waiting, leased = self._clients()
        yield from self.families()
        yield gauge("reactor_clients_waiting", "Clients in the queue", waiting)
        yield gauge("reactor_places", "Clients that have a lease at a replica", leased)
        yield counter("reactor_leases_lost", "Leases lost with their replica, or that no replica could grant", self.lost)
        yield counter("reactor_leases_ended", "Leases that ended, by the end reason of their session", self.ended, "reason")
        yield histogram("reactor_allocation_seconds", "From a client's request to its lease", self.allocation)
