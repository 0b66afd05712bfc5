"""`RequestMetrics`: the counters of one server's connections and requests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast, get_args

from reactor_trio.edge.metric_families import counter, gauge
from reactor_trio.protocol.refusals import REFUSALS, DenialReason, LimitKind, RefusalCode

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

#: HTTP statuses of refusals.
STATUSES = tuple(sorted({str(kind.status) for kind in REFUSALS.values()}))


class RequestMetrics:
    """The counters of one server, on all its ports.

    Attributes:
        connections: open TCP connections.
    """

    def __init__(self) -> None:
        self.connections = 0
        self._refusals = dict.fromkeys(STATUSES, 0)
        self._denials: dict[DenialReason, int] = dict.fromkeys(get_args(DenialReason), 0)
        self._limited: dict[LimitKind, int] = dict.fromkeys(get_args(LimitKind), 0)

    def connected(self) -> None:
        """Count a connection that begins."""
        self.connections += 1

    def disconnected(self) -> None:
        """Count a connection that has ended."""
        self.connections -= 1

    def refused(self, code: RefusalCode) -> None:
        """Count a refused connection, request or client by its status."""
        self._refusals[str(REFUSALS[code].status)] += 1

    def denied(self, reason: DenialReason) -> None:
        """Count a request that was denied for its token or ticket."""
        self._denials[reason] += 1

    def limited(self, kind: LimitKind) -> None:
        """Count a connection or request that a limit refused."""
        self._limited[kind] += 1

    def families(self) -> Iterator[Metric]:
        """Yield the counters as metric families."""
        yield gauge("reactor_connections", "Open TCP connections", self.connections)
        yield counter("reactor_connections_refused", "Connections and requests refused by a limit", self._limited, "limit")
        yield counter("reactor_requests_refused", "Requests and clients refused, by HTTP status", self._refusals, "status")
        yield counter("reactor_access_denied", "Requests refused for their credentials, by reason", self._denials, "reason")

    @cached_property
    def registry(self) -> CollectorRegistry:
        """A registry of this server, since several may run in one process. On Linux it also has the process's metrics."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        ProcessCollector(namespace="reactor", registry=registry)
        registry.register(cast("Collector", self))
        return registry

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families of the server, for the registry."""
        yield from self.families()

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
