"""The listening sockets: who gets a connection, who is turned away and told why, and how many of either there may be."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.address_limits import Addresses, is_loopback
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.refusal_log import Refusals
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.transport import Limits, PatientListener, Site, peer_of, secured, serve_http, turn_away

log = logging.getLogger("reactor_trio.server")


class AddressedSite(Site, Protocol):
    """What is served at a port of ours.

    Attributes:
        methods: what it takes.
        limits: of one connection.
        addresses: what each address may have.
    """

    methods: Sequence[str]
    addresses: Addresses

    @property
    def limits(self) -> Limits:
        """Of one connection."""


class Acceptor:
    """Takes the connections of one port.

    Args:
        site: what is served there.
        room: connections at a time.
        metrics: counts them, and what is refused.
        ready: tells whether clients are let in at all.
        closing: set when the server begins to go down.
        certificates: what it shows by TLS; None: it speaks plain HTTP.
    """

    def __init__(
        self,
        site: AddressedSite,
        room: int,
        metrics: RequestMetrics,
        ready: Callable[[], bool],
        closing: trio.Event,
        certificates: Certificates | None,
    ) -> None:
        self._site = site
        self._limits = site.limits
        self._room = room
        self._metrics = metrics
        self._refusals = Refusals(metrics, ready)
        self._closing = closing
        self._certificates = certificates
        self._open = self._turned_away = 0

    async def run(self, listeners: Sequence[trio.SocketListener], connections: trio.Nursery) -> None:
        """Accept until cancelled; connections go on, in a nursery of their own."""
        await trio.serve_listeners(self._take, [PatientListener(one) for one in listeners], handler_nursery=connections)

    async def _take(self, tcp: trio.SocketStream) -> None:
        # The TLS handshake is part of the first read, so that it has the limit of the first request.
        stream = tcp if self._certificates is None else secured(tcp, self._certificates.context)
        peer, addresses = peer_of(tcp), self._site.addresses
        if self._open >= self._room:
            why = addresses.refuse("connections", peer, self._room)
            await self._refuse(stream, why, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        with addresses.connection(peer) as why_not:
            if why_not is None:
                await self._serve(stream)
            else:
                await self._refuse(stream, why_not, HTTPStatus.TOO_MANY_REQUESTS)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        self._open += 1
        self._metrics.connections = self._open
        try:
            await serve_http(
                stream, self._site, self._limits, closing=self._closing, methods=self._site.methods,
                refused=self._refusals.note,
            )  # fmt: skip
        except* Exception as group:
            # A fault of the runtime in one connection must not take the others down.
            log.error("a connection failed in the runtime: please report this", exc_info=group)
        finally:
            self._open -= 1
            self._metrics.connections = self._open

    async def _refuse(self, stream: trio.abc.Stream, why: str, status: HTTPStatus) -> None:
        per_address = "_per_address" if status == HTTPStatus.TOO_MANY_REQUESTS else ""
        self._refusals.note(f"a connection above runtime.limits.connections{per_address}", status)
        if self._turned_away >= self._room:  # to say why takes a descriptor, too
            await trio.aclose_forcefully(stream)
            return
        self._turned_away += 1
        try:
            await turn_away(stream, why, status)
        finally:
            self._turned_away -= 1


def bound_addresses(listeners: Sequence[trio.SocketListener]) -> list[str]:
    """The addresses where they listen."""
    internet = (socket.AF_INET, socket.AF_INET6)
    return [one.socket.getsockname()[0] for one in listeners if one.socket.family in internet]


def warn_if_open(listeners: Sequence[trio.SocketListener], settings: Settings) -> None:
    """Log a warning if others than this computer's users can reach a server that asks for nothing."""
    if settings.auth is not None:
        return
    for listener in listeners:
        if listener.socket.family in (socket.AF_INET, socket.AF_INET6):
            host, port = listener.socket.getsockname()[:2]
            if not is_loopback(host):
                where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                log.warning(
                    "whoever reaches %s can use this model: set runtime.auth (docs/security.md), or host: 127.0.0.1", where
                )
                return
