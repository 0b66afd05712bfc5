"""`Acceptor`: accepts the connections of a port, up to the limits, and refuses the others with a reason."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.ip_addresses import is_loopback
from reactor_trio.edge.reserved_slots import FIRST_REQUEST, ReservedSlots
from reactor_trio.edge.site import Site
from reactor_trio.transport import (
    OpenRequests,
    PatientListener,
    PortRules,
    Refusal,
    Refused,
    Serve,
    peer_of,
    secured,
    serve_http,
    turn_away,
)

log = logging.getLogger("reactor_trio.edge")


@dataclass(eq=False)
class Acceptor:
    """Accepts and serves the connections of one port. Above `site.most_connections` they get reserved slots.

    Args:
        site: answers the requests.
        closing: set when the server begins to shut down.
        certificates: the certificate for TLS; None for plain HTTP.
        requests: counts the requests that have begun, with those of another port if that one's are given.

    A port ends in this order, of a server, a gate and a standby alike: from `closing` on a connection ends with its answer.
    When nothing else is left of the drain, `finish` accepts no more and waits for the requests that have begun. Then its
    owner cancels the connections, which have said nothing.
    """

    site: Site
    closing: trio.Event
    certificates: Certificates | None
    requests: OpenRequests = field(default_factory=OpenRequests)

    def __post_init__(self) -> None:
        self._open = self._turned_away = 0
        self._reserved = ReservedSlots()
        self._accepting = trio.CancelScope()

    async def run(self, listeners: Sequence[trio.SocketListener], connections: trio.Nursery) -> None:
        """Accept connections until `stop_accepting`. They run in the nursery `connections` and go on after that."""
        with self._accepting:
            await trio.serve_listeners(self._take, [PatientListener(one) for one in listeners], handler_nursery=connections)

    def stop_accepting(self) -> None:
        """Accept no connection any more. Those that come wait in the sockets' queue for the sockets' next owner."""
        self._accepting.cancel()

    async def finish(self, deadline: float) -> None:
        """Accept no connection any more, and wait for the requests that have begun, at the latest until `deadline`."""
        self.stop_accepting()
        await self.requests.all_over(deadline)

    async def _take(self, tcp: trio.SocketStream) -> None:
        # The TLS handshake is part of the first read, so that the limit of the first request bounds it.
        stream = tcp if self.certificates is None else secured(tcp, self.certificates.context)
        peer = peer_of(tcp)
        try:
            with self.site.addresses.connection(peer):
                if self._open - len(self._reserved) < self.site.most_connections:
                    await self._serve(stream, self.site.serve, self.site.rules)
                else:
                    await self._reserve(stream, peer)
        except Refused as refused:
            await self._refuse(stream, peer, refused.refusal)

    async def _reserve(self, stream: trio.abc.Stream, peer: str) -> None:
        """Serve one request of a connection for which there is no room, in a reserved slot. Raises Refused without one."""
        with self._reserved.slot(self.site.addresses.of_peer(peer)) as slot:
            if slot is None:
                raise Refused(Refusal("connections"))
            rules = replace(self.site.rules, head_refused=slot.noting(self.site.rules.head_refused))
            await self._serve(stream, partial(self.site.serve, slot=slot), rules, first_head=FIRST_REQUEST)
        if not slot.heard:
            self.site.refusals.limited("connections", peer)  # a client that sent no request gets no answer

    async def _serve(
        self, stream: trio.abc.Stream, serve: Serve, rules: PortRules, first_head: float | None = None
    ) -> None:
        self._open += 1
        self.site.metrics.connected()
        head = None if first_head is None else min(first_head, rules.limits.handshake)
        try:
            await serve_http(
                stream, serve, rules, closing=self.closing, first_head=head, single=head is not None, requests=self.requests
            )
        except* Exception as group:
            # An error of the runtime in one connection must not end the others.
            log.error("a connection failed in the runtime: please report this", exc_info=group)
        finally:
            self._open -= 1
            self.site.metrics.disconnected()

    async def _refuse(self, stream: trio.abc.Stream, peer: str, refusal: Refusal) -> None:
        refusal = self.site.refusals.note(peer, None, refusal)
        if self._turned_away >= self.site.most_connections:  # the response needs a file descriptor, too
            await trio.aclose_forcefully(stream)
            return
        self._turned_away += 1
        try:
            await turn_away(stream, refusal)
        finally:
            self._turned_away -= 1


def bound_addresses(listeners: Sequence[trio.SocketListener]) -> list[str]:
    """Return the IP addresses at which the listeners listen."""
    return [host for host, _port in _internet_addresses(listeners)]


def warn_if_open(listeners: Sequence[trio.SocketListener], settings: Settings) -> None:
    """Log a warning if other machines can reach a server that has no authentication."""
    if settings.auth is not None:
        return
    for host, port in _internet_addresses(listeners):
        if not is_loopback(host):
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            log.warning(
                "anyone who reaches %s can use this model: set runtime.auth (docs/operate/security.md), or host: 127.0.0.1",
                where,
            )
            return


def _internet_addresses(listeners: Sequence[trio.SocketListener]) -> list[tuple[str, int]]:
    families = (socket.AF_INET, socket.AF_INET6)
    return [one.socket.getsockname()[:2] for one in listeners if one.socket.family in families]
