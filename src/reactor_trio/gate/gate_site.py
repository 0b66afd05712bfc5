"""The routes of a gate: the page, sessions by HTTP or WebSocket, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

import trio
from msgspec import UNSET

from reactor_trio.admission import NotAdmitted, RefusalReason
from reactor_trio.configuration.introduction import Picture
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.common_responses import Health, health_response, json_response, not_ready
from reactor_trio.edge.common_routes import (
    SESSIONS_PATH,
    ModelSchema,
    described,
    end_handler,
    end_route,
    metrics_handler,
    metrics_route,
    page_routes,
    probe_routes,
)
from reactor_trio.edge.grants import SERVER_CREDENTIALS, SHARED_CREDENTIALS, Grant
from reactor_trio.edge.not_admitted import refusal
from reactor_trio.edge.router import Route
from reactor_trio.edge.site import Site
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.gate.allocation import Allocation
from reactor_trio.gate.waiting_client import WaitingClient
from reactor_trio.protocol import Admitted
from reactor_trio.transport import WEBSOCKET_PATH, Conversation, Exchange, MessageChannel, Refusal, Refused, Response

QUEUE_PATH = "/v1/queue"
#: Seconds within which a slot must be free for a client that does not wait in the queue.
PATIENCE = 1.0

_GOING_DOWN, _FULL = "the gate is going down", "the queue is full"


def gate_site(
    allocation: Allocation, settings: Settings, schema: dict[str, Any], draining: trio.Event, *bound: str,
    pictures: Mapping[str, Picture] | None = None,
) -> Site:  # fmt: skip
    """What a gate serves.

    Args:
        allocation: the queue and the leases.
        settings: the gate's settings.
        schema: the schema of the model, as a server answers it at `GET /schema`.
        draining: set when the gate drains.
        bound: the addresses at which the gate listens, if they are known.
        pictures: those of the model's introduction, by name.
    """
    access = Access(settings.auth, schema["name"])
    addresses = AddressLimits(settings.limits, settings.proxies)
    gate = GateRoutes(allocation, settings, schema, draining, access)
    routes = [*page_routes(settings.frame_ancestors, pictures), *gate.routes()]
    return Site(settings, routes, access, allocation.metrics, addresses, *bound)


class GateRoutes:
    """Answers the requests to one gate; the arguments are those of `gate_site`."""

    def __init__(
        self, allocation: Allocation, settings: Settings, schema: dict[str, Any], draining: trio.Event, access: Access
    ) -> None:
        self._allocation = allocation
        self._settings = settings
        self._schema = ModelSchema(schema)
        self._name: str = schema["name"]
        self._draining = draining
        self._access = access

    def routes(self) -> list[Route]:
        """All of them. A request for a session counts as a handshake, which could ask for one as well."""
        asks = partial(Route, credentials=SERVER_CREDENTIALS, limit="address_handshakes")
        return [
            *probe_routes(self._health, self._ready),
            Route("/schema", self._schema_of_model, credentials=SHARED_CREDENTIALS, required=True),
            metrics_route(metrics_handler(self._allocation.metrics)),
            asks(SESSIONS_PATH, self._allocate, method="POST", body="ignored"),
            asks(WEBSOCKET_PATH, self._follow, websocket=True), asks(QUEUE_PATH, self._queue, websocket=True),
            end_route(end_handler(self._access, self._end)),
        ]  # fmt: skip

    # ---- plain requests -----------------------------------------------------------------------------------------------

    async def _schema_of_model(self, exchange: Exchange, _grant: Grant) -> Response:
        return described(exchange.request, self._settings, self._schema, Refusal("draining", _GOING_DOWN))

    async def _health(self, _exchange: Exchange, grant: Grant) -> Response:
        going = self._draining.is_set()
        health = Health(
            status="draining" if going else "ok", phase="draining" if going else "ready", model=self._name,
            sessions=self._allocation.leased, waiting=self._allocation.waiting, gate=True,
            role=grant.claims.role if self._access.required else UNSET, reason=_GOING_DOWN if going else UNSET,
        )  # fmt: skip
        return health_response(health, grant)

    async def _ready(self, _exchange: Exchange, _grant: Grant) -> Response:
        if self._draining.is_set():
            return not_ready("draining", _GOING_DOWN)
        return json_response(200, {"status": "ready"})

    # ---- sessions -----------------------------------------------------------------------------------------------------

    async def _allocate(self, exchange: Exchange, grant: Grant) -> Response:
        """Answer `POST /v1/sessions`. It ignores the body; the query is that of a session."""
        return json_response(201, await self._admit_at_once(exchange, grant))

    async def _follow(self, exchange: Exchange, grant: Grant) -> Response | Conversation:
        """Let a client wait in the queue if it understands the gate's messages; else redirect it to a server at once."""
        query = exchange.request.query
        if query.get("follow") == "1":
            return await self._queue(exchange, grant)
        admitted = await self._admit_at_once(exchange, grant)
        kept = {key: value for key, value in query.items() if key not in ("token", "follow")}
        return _redirect(f"{admitted.url}?{urlencode(kept | {'token': admitted.ticket})}")

    async def _queue(self, exchange: Exchange, grant: Grant) -> Conversation:
        self._check_client(exchange, grant)
        return partial(self._wait, exchange, grant)

    def _end(self, session_id: str) -> Callable[[], Response] | None:
        """Redirect the client to the session's replica, which ends the session, with a ticket for it."""
        granted = self._allocation.granted(session_id)
        if granted is None:
            return None
        scheme, _, rest = granted.url.removesuffix("/ws").partition("://")
        address = f"{'https' if scheme == 'wss' else 'http'}://{rest}{SESSIONS_PATH}/{session_id}"
        ticket = issue_ticket(granted.key, session=session_id)
        return partial(_redirect, f"{address}?{urlencode({'token': ticket})}")

    def _check_client(self, exchange: Exchange, grant: Grant) -> None:
        """Raises Refused for a client that cannot get a slot. This does not use up its ticket."""
        query = exchange.request.query
        if self._draining.is_set():
            raise Refused(Refusal("draining", _GOING_DOWN))
        if grant.required().claims.role == "viewer":
            raise Refused(Refusal("not_allowed", "this token can only watch; a link for viewers leads to its replica"))
        if query.get("model", self._name) != self._name:
            raise Refused(Refusal("wrong_model", f"this gate serves {self._name}, not {query['model']}"))
        if (role := query.get("role", "control")) != "control":
            why = "a link for viewers leads to its replica" if role == "viewer" else "it is not one of control, viewer"
            raise Refused(Refusal("not_found" if role == "viewer" else "bad_request", f"role: {role!r}: {why}"))
        if self._allocation.address_full(exchange.address):
            raise Refused(self._not_admitted("address_full"))

    def _not_admitted(self, reason: RefusalReason) -> Refusal:
        return refusal(reason, full=_FULL, closed=Refusal("draining", _GOING_DOWN))

    async def _wait(self, exchange: Exchange, grant: Grant, messages: MessageChannel) -> None:
        try:
            with self._allocation.asking(grant.claims, exchange.address) as slot_request:
                # A client in the queue has used up its ticket. A client that was refused before may come back with it.
                with self._access.holding(grant):
                    self._access.use(grant)
                beats = exchange.request.query.get("beat") == "1"
                await WaitingClient(slot_request, messages, self._settings.limits.ping_interval, beats=beats).run()
        except NotAdmitted as refused:
            raise Refused(self._not_admitted(refused.reason)) from None

    async def _admit_at_once(self, exchange: Exchange, grant: Grant) -> Admitted:
        """Return where a client gets its session that does not wait. Raises Refused."""
        self._check_client(exchange, grant)
        try:
            with self._access.holding(grant):  # a ticket is good for one slot
                with self._allocation.asking(grant.claims, exchange.address) as slot_request:
                    with trio.move_on_after(PATIENCE):
                        await slot_request.decided.wait()
                    if slot_request.refused is not None:  # the gate began to drain
                        raise Refused(self._not_admitted("draining"))
                    if slot_request.admitted is None:
                        raise Refused(Refusal("full", f"no place is free; to wait for one, use the WebSocket {QUEUE_PATH}"))
                    self._access.use(grant)  # last, so that a client that is refused keeps its ticket
                    slot_request.kept = True
                    return slot_request.admitted
        except NotAdmitted as refused:
            raise Refused(self._not_admitted(refused.reason)) from None


def _redirect(address: str) -> Response:
    return Response(307, "text/plain; charset=utf-8", b"", {"location": address, "cache-control": "no-store"})
