"""`Site`: what a port serves. Each request comes through `Site.serve`, which checks it in this order:

1. its host (421), then its path and method (404, 405);
2. for a WebSocket the handshake (400, 426), and for one and for a body the page that sends it (403);
3. its credential (401, or 429 after many that are not good);
4. the limits of its address (429);
5. on a connection above `limits.connections`: whether a reserved slot is for it (503);
6. its body (408, 413), unless its route takes it.

Then its route answers, or opens its conversation. Server, gate, standby and the port of `runtime.management` are sites with
different routes. A request that fails in 1 to 3 is refused after 6, so that it counts as any other; one with a wrong host is
refused at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.edge.address_limits import Addresses
from reactor_trio.edge.cors import is_preflight, preflight_answer
from reactor_trio.edge.denial import Denials
from reactor_trio.edge.grants import Grant
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.edge.request_policy import RequestPolicy
from reactor_trio.edge.reserved_slots import OWNERS, ReservedSlot
from reactor_trio.edge.router import READS, Route, Router
from reactor_trio.transport import Conversation, Exchange, Limits, Refused, Request, Response
from reactor_trio.transport.upgrade import UPGRADE_HEADERS, Handshake, check_handshake, wants_websocket


class Site:
    """The routes of one port, behind its checks.

    Args:
        settings: of the server.
        routes: what answers; the first that fits.
        access: knows the credentials.
        metrics: counts connections and refusals.
        addresses: the limits of each client address.
        bound: addresses at which the port listens, if they are known; `settings.host` is always one.

    Attributes:
        most_connections: at a time.
        limits: of one connection.
    """

    def __init__(
        self, settings: Settings, routes: Sequence[Route], access: Access, metrics: RequestMetrics, addresses: Addresses,
        *bound: str,
    ) -> None:  # fmt: skip
        given = settings.limits
        self.access = access
        self.metrics = metrics
        self.router = Router(*routes)
        self.addresses = addresses
        self.denials = Denials(metrics, addresses)
        self.most_connections = given.connections
        self.limits = Limits(
            text_message=given.text_message, binary_message=given.client_binary, text_per_second=given.text_per_second,
            http_head=given.http_head, body_time=settings.uploads.time, handshake=given.handshake,
            ping_interval=given.ping_interval, silence=given.silence, stall=given.stall,
        )  # fmt: skip
        self._policy = RequestPolicy(settings, *bound)

    async def serve(self, exchange: Exchange, slot: ReservedSlot | None = None) -> Response | Conversation:
        """Answer a request. Raises Refused.

        Args:
            slot: the reserved slot of the connection, if it is one above `most_connections`.
        """
        request = exchange.request
        self._policy.check_host(request)
        exchange.address = self.addresses.of_request(request)
        exchange.denied = self.denials.note
        route, handshake = self._route(exchange)
        try:
            grant = self.access.identify(exchange, route.needs, self.denials)
        except Refused as refused:
            route, grant = _refusing(route, refused), Grant(refused=refused.with_traceback(None))
        if handshake is not None:
            exchange.counted.enter_context(self.addresses.socket(exchange.address, request.peer))
            exchange.handshake = handshake  # from here on a refusal may go into the WebSocket
        if grant.refused is None or grant.refused.code == "token_missing":
            self.addresses.count(exchange.address, route.limit)  # a wrong credential has been counted instead
        if slot is not None and not slot.take(grant.kind in OWNERS, probe=route.reserved and not _has_body(request)):
            raise self.addresses.refused("connections", request.peer)
        if route.body == "ignored":
            await exchange.read_body()
        if not route.websocket:
            return await route.handle(exchange, grant)
        late = f"the server did not decide within {self.limits.handshake:g} s whether to take you; try again"
        with exchange.within("not_decided", late):
            return await route.handle(exchange, grant)

    def _route(self, exchange: Exchange) -> tuple[Route, Handshake | None]:
        """Find what answers a request, and check the handshake of one that asks for a WebSocket."""
        request = exchange.request
        preflight = is_preflight(request)
        method = "POST" if preflight else request.method
        if any(route.shared and method in route.methods for route in self.router.at(request.path)):
            exchange.shared_with = self._policy.listed_origin(request)
            if preflight and exchange.shared_with is not None:
                return Route(request.path, _allow), None
        try:
            if request.method in READS and wants_websocket(request) and self.router.websockets:
                handshake = check_handshake(request, self.router.websockets)
                self._policy.check_origin(request, "connect here")
                return self.router.find(request), handshake
            route = self.router.find(request)
            if route.websocket:
                raise Refused("upgrade_required", f"{request.path} is a WebSocket", UPGRADE_HEADERS)
            if route.method != "GET":
                self._policy.check_origin(request, "send this")
        except Refused as refused:
            # A GET is read to its end before it is refused, so that its connection may go on.
            reads = request.method in READS and not wants_websocket(request)
            return _refusing(Route(request.path, _allow, body="ignored" if reads else "taken"), refused), None
        return route, None


def _refusing(route: Route, refused: Refused) -> Route:
    kept = refused.with_traceback(None)  # or it would keep the frames that it has passed, and they the route

    async def refuse(_exchange: Exchange, _grant: Grant) -> Response:
        raise copy(kept)

    return replace(route, handle=refuse)


async def _allow(_exchange: Exchange, _grant: Grant) -> Response:
    return preflight_answer()


def _has_body(request: Request) -> bool:
    return bool(request.header("content-length") or request.header("transfer-encoding"))
