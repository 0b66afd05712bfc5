"""What is counted of the requests to one port, whatever is served there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

#: Why somebody was not let in; see `access.DenialReason`.
DENIALS = ("missing", "wrong", "expired", "used", "not_allowed", "full")

#: Why a connection or handshake was refused: all connections are taken; an address has too many, asks too often, or has too
#: many clients in the queue.
LimitKind = Literal["connections", "address_connections", "address_handshakes", "address_waiting"]

#: Statuses with which a request is refused; another counts as "other".
REFUSALS = (
    "400", "401", "403", "404", "405", "408", "410", "411", "413", "415", "417", "421", "426", "429", "431", "500", "503",
    "507", "other",
)  # fmt: skip


class RequestMetrics:
    """Counters of one port.

    Attributes:
        connections: open TCP connections.
    """

    def __init__(self) -> None:
        self.connections = 0
        self._refusals = dict.fromkeys(REFUSALS, 0)
        self._denials = dict.fromkeys(DENIALS, 0)
        self._limited: dict[LimitKind, int] = dict.fromkeys(get_args(LimitKind), 0)

    def refused(self, status: int) -> None:
        """A request, or a client before its WebSocket was open, was refused."""
        key = str(status)
        self._refusals[key if key in self._refusals else "other"] += 1

    def denied(self, reason: str) -> None:
        """Somebody was not let in, or not shown what it asked for; `reason` is one of `DENIALS`."""
        self._denials[reason] += 1

    def limited(self, kind: LimitKind) -> None:
        """A connection or handshake was refused by a limit."""
        self._limited[kind] += 1

    def families(self) -> Iterator[Metric]:
        """All of it as metric families."""
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("reactor_connections", "Open TCP connections", self.connections)
        for name, text, label, counts in (
            ("reactor_connections_refused", "Connections and handshakes refused by a limit", "limit", self._limited),
            ("reactor_requests_refused", "Requests and clients refused, by HTTP status", "status", self._refusals),
            ("reactor_access_denied", "Requests by who may not make them", "reason", self._denials),
        ):
            yield from labelled(name, text, label, counts)

    @cached_property
    def registry(self) -> CollectorRegistry:
        """The server's own, so that several can live in one process; on Linux it tells of the process, too."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        ProcessCollector(namespace="reactor", registry=registry)
        registry.register(cast("Collector", self))
        return registry

    @abstractmethod
    def collect(self) -> Iterator[Metric]:
        """All of it as metric families, for the registry."""

    def exposition(self) -> bytes:
        """All of it as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


def labelled(name: str, text: str, label: str, counts: Any) -> Iterator[Metric]:
    """A counter for each value of one label."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    yield family
