"""`Site`: what a port serves. Each request comes through `Site.serve`, which checks it in this order:

1. its host (421), then its path and method (404, 405);
2. for a WebSocket the handshake (400, 426), and for one and for a body the page that sends it (403);
3. its credential (401, or 429 after many that are not good);
4. the limits of its address (429);
5. on a connection above `limits.connections`: whether a reserved slot is for it (503);
6. its body (408, 413), unless its route takes it.

Then its route answers, or opens its conversation. Server, gate, standby and the port of `runtime.management` are sites with
different routes. A request that fails in 1 to 3 is refused after 6, so that it counts as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.cors import SharedResponses, is_preflight, preflight_answer
from reactor_trio.edge.grants import Grant
from reactor_trio.edge.refusal_log import RefusalLog
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.edge.request_policy import RequestPolicy
from reactor_trio.edge.reserved_slots import OWNERS, ReservedSlot
from reactor_trio.edge.router import READS, Route, Router
from reactor_trio.transport import Conversation, Exchange, Limits, PortRules, Refusal, Refused, Response
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
        refusals: those of another port, if what this one refuses counts there.

    Attributes:
        most_connections: at a time.
        rules: what holds for each exchange.
        refusals: counts and logs what is refused.
    """

    def __init__(
        self, settings: Settings, routes: Sequence[Route], access: Access, metrics: RequestMetrics, addresses: AddressLimits,
        *bound: str, refusals: RefusalLog | None = None,
    ) -> None:  # fmt: skip
        given = settings.limits
        self.access = access
        self.metrics = metrics
        self.router = Router(*routes)
        self.addresses = addresses
        self.refusals = RefusalLog(metrics, addresses) if refusals is None else refusals
        self.most_connections = given.connections
        self._policy = RequestPolicy(settings, *bound)
        limits = Limits(
            text_message=given.text_message, binary_message=given.client_binary, text_per_second=given.text_per_second,
            http_head=given.http_head, body_time=settings.uploads.time, handshake=given.handshake,
            ping_interval=given.ping_interval, silence=given.silence, stall=given.stall,
        )  # fmt: skip
        self.rules = PortRules(
            limits, addresses.of_client, SharedResponses(self.router, self._policy).reader, self.refusals.note,
            self.refusals.note_head,
        )  # fmt: skip

    async def serve(self, exchange: Exchange, slot: ReservedSlot | None = None) -> Response | Conversation:
        """Answer a request. Raises Refused.

        Args:
            slot: the reserved slot of the connection, if it is one above `most_connections`.
        """
        if slot is not None:
            slot.read(exchange)
        request = exchange.request
        route, handshake = self._route(exchange)
        grant = self.access.identify(request, route.credentials)
        if grant.refusal is not None and grant.refusal.kind.guess:  # it counts, whatever the route answers
            grant = Grant(refusal=self.refusals.denied(exchange.peer, exchange.address, grant.refusal))
        if grant.refusal is not None and (route.required or grant.refusal.code == "address_failures"):
            route = _refusing(route, grant.refusal)
        if handshake is not None:
            exchange.upgrade(handshake, self.addresses.socket(exchange.address, request.peer))
        if grant.refusal is None or grant.refusal.code == "token_missing":
            self.addresses.count(exchange.address, route.limit)  # a wrong credential has been counted instead
        if slot is not None:
            slot.take(owner=grant.kind in OWNERS, probe=route.reserved and not request.has_body)
        if route.body == "ignored":
            await exchange.read_body()
        if not route.websocket:
            return await route.handle(exchange, grant)
        late = f"the server did not decide within {self.rules.limits.handshake:g} s whether to take you; try again"
        with exchange.within("not_decided", late):
            return await route.handle(exchange, grant)

    def _route(self, exchange: Exchange) -> tuple[Route, Handshake | None]:
        """Find what answers a request, and check the handshake of one that asks for a WebSocket."""
        request = exchange.request
        if not self._policy.takes_host(request):
            return _refusing(Route(request.path, _allow, body="taken"), self._policy.wrong_host(request)), None
        if exchange.shared_with is not None and is_preflight(request):
            return Route(request.path, _allow), None
        websocket = request.method in READS and wants_websocket(request)
        try:
            route = self.router.find(request, websocket=websocket)
            if websocket:
                handshake = check_handshake(request)
                self._policy.check_origin(request, "connect here")
                return route, handshake
            if route.websocket:
                raise Refused(Refusal("upgrade_required", f"{request.path} is a WebSocket", UPGRADE_HEADERS))
            if route.method != "GET":
                self._policy.check_origin(request, "send this")
        except Refused as refused:
            # A GET is read to its end before it is refused, so that its connection may go on.
            reads = request.method in READS and not websocket
            return _refusing(Route(request.path, _allow, body="ignored" if reads else "taken"), refused.refusal), None
        return route, None


def _refusing(route: Route, refusal: Refusal) -> Route:
    async def refuse(_exchange: Exchange, _grant: Grant) -> Response:
        raise Refused(refusal)

    return replace(route, handle=refuse)


async def _allow(_exchange: Exchange, _grant: Grant) -> Response:
    return preflight_answer()
