"""`GateSite`: the HTTP routes and WebSockets of a gate: the page, places by HTTP or WebSocket, health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

import trio

from reactor_trio.admission import NotAdmitted
from reactor_trio.configuration.introduction import Picture
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access, Grant
from reactor_trio.edge.common_responses import busy, json_response, not_ready
from reactor_trio.edge.denial import Denied
from reactor_trio.edge.request_metrics import LimitKind
from reactor_trio.edge.request_policy import SESSIONS_PATH, AccessSite
from reactor_trio.edge.router import Route
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.gate.allocation import Allocation
from reactor_trio.gate.gate_metrics import GateMetrics
from reactor_trio.gate.waiting_client import WaitingClient
from reactor_trio.protocol import Admitted, close_code
from reactor_trio.transport import WEBSOCKET_PATH, BodyTaker, Conversation, MessageChannel, Request, Response

QUEUE_PATH = "/v1/queue"
#: Seconds within which a place must come for a client that does not wait in the queue.
PATIENCE = 1.0

_GOING_DOWN, _FULL = "the gate is going down", "the queue is full"


class GateSite(AccessSite):
    """The `transport.Site` of a gate.

    Args:
        allocation: the queue and the leases.
        settings: the gate's settings.
        schema: the schema of the model, as a server answers it at `GET /schema`.
        metrics: the gate's counters.
        draining: set when the gate drains.
        pictures: those of the model's introduction, by name.
        bound: the addresses at which the gate listens, if they are known.
    """

    def __init__(
        self, allocation: Allocation, settings: Settings, schema: dict[str, Any], metrics: GateMetrics, draining: trio.Event,
        *bound: str, pictures: Mapping[str, Picture] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(settings, metrics, Access(settings.auth, schema["name"]), *bound)
        self._allocation = allocation
        self._pictures = pictures or {}
        self._schema = schema
        self._name: str = schema["name"]
        self._draining = draining
        self._route(
            Route("/health", get=self._health), Route("/ready", get=self._ready),
            Route("/schema", get=self._schema_of_model), Route("/metrics", get=self._metrics_page),
            Route(SESSIONS_PATH, post=self._allocate), Route(WEBSOCKET_PATH, websocket=True),
            Route(QUEUE_PATH, websocket=True),
        )  # fmt: skip

    # ---- plain requests -----------------------------------------------------------------------------------------------

    def _schema_of_model(self, request: Request) -> Response:
        self._look(request)
        return self._described(request, self._schema, busy("draining", _GOING_DOWN))

    def _health(self, request: Request) -> Response:
        """Answer 200 or 503. Only authenticated requests see the model and the counts."""
        going = self._draining.is_set()
        body: dict[str, Any] = {"status": "draining" if going else "ok", "phase": "draining" if going else "ready"}
        if self._known(request) is not None:
            places, waiting = self._allocation.places, self._allocation.waiting
            body |= {"model": self._name, "sessions": places, "waiting": waiting, "gate": True}
        return json_response(503, body, {"retry-after": "1"}) if going else json_response(200, body)

    def _ready(self, _request: Request) -> Response:
        if self._draining.is_set():
            return not_ready("draining", _GOING_DOWN)
        return json_response(200, {"status": "ready"})

    def _allocate(self, request: Request) -> BodyTaker:
        """Return the handler of `POST /v1/sessions`. It ignores the body; the query is that of a session."""

        async def allocate(_body: AsyncIterator[bytes]) -> Response:
            place = await self._place_at_once(request)
            return place if isinstance(place, Response) else json_response(201, place)

        return allocate

    def _end_session(self, session_id: str) -> Response | None:
        """Redirect the client to the session's replica, which ends the session, with a ticket for it."""
        granted = self._allocation.granted(session_id)
        if granted is None:
            return None
        scheme, _, rest = granted.url.removesuffix("/ws").partition("://")
        address = f"{'https' if scheme == 'wss' else 'http'}://{rest}{SESSIONS_PATH}/{session_id}"
        return _redirect(f"{address}?{urlencode({'token': issue_ticket(granted.key, session=session_id)})}")

    # ---- places -------------------------------------------------------------------------------------------------------

    async def admit(self, request: Request) -> Response | Conversation:
        """Let a client wait in the queue if it understands the gate's messages; else redirect it to a place at once."""
        if request.path == QUEUE_PATH or request.query.get("follow") == "1":
            answer = self._check_client(request)
            return answer if isinstance(answer, Response) else partial(self._wait, request, answer)
        place = await self._place_at_once(request)
        if isinstance(place, Response):
            return place
        query = {key: value for key, value in request.query.items() if key not in ("token", "follow")}
        return _redirect(f"{place.url}?{urlencode(query | {'token': place.ticket})}")

    def _counts_as(self, request: Request) -> LimitKind | None:
        """A request for a place counts as a handshake, by which it could be asked for as well."""
        asks = request.path == SESSIONS_PATH and request.method == "POST" and self._from_allowed_page(request)
        return "address_handshakes" if asks else super()._counts_as(request)

    def _check_client(self, request: Request) -> Response | Grant:
        """Return what the client may do, or the response that refuses it. This does not use up its ticket."""
        if (too_much := self.addresses.refusal(request)) is not None:
            return too_much
        if self._draining.is_set():
            return busy("draining", _GOING_DOWN)
        try:
            grant = self._look(request)
            if grant.claims.role == "viewer":
                raise Denied("not_allowed", "this token can only watch; a link for viewers leads to its replica")
        except Denied as denied:
            return self._deny(request, denied)
        if request.query.get("model", self._name) != self._name:
            return Response.refusing("wrong_model", f"this gate serves {self._name}, not {request.query['model']}")
        if (role := request.query.get("role", "control")) != "control":
            why = "a link for viewers leads to its replica" if role == "viewer" else "it is not one of control, viewer"
            return Response.refusing("not_found" if role == "viewer" else "bad_request", f"role: {role!r}: {why}")
        if self._allocation.address_full(self.addresses.of_request(request)):
            return self.addresses.queue_full(request)
        return grant

    async def _wait(self, request: Request, grant: Grant, messages: MessageChannel) -> None:
        with self.addresses.conversation(request) as why_not:
            if why_not is not None:
                await self._send_away(request, messages, self.addresses.too_many(why_not), why_not)
                return
            try:
                with self._allocation.asking(grant.claims, self.addresses.of_request(request)) as place_request:
                    # A client in the queue has used up its ticket. A client that was refused before may come back with it.
                    with self._access.holding(grant):
                        self._access.use(grant)
                    beats = request.query.get("beat") == "1"
                    await WaitingClient(place_request, messages, self.limits.ping_interval, beats=beats).run()
            except NotAdmitted as refused:
                if refused.reason == "draining":
                    gone = busy("draining", _GOING_DOWN)
                    await self._send_away(request, messages, gone, "draining", close_code("draining"))
                else:
                    await self._send_away(request, messages, busy("full", _FULL), "no_room")
            except Denied as denied:
                await self._send_away(request, messages, self._deny(request, denied), denied.message)

    async def _place_at_once(self, request: Request) -> Response | Admitted:
        """Return a place for a client that does not wait, or the response that refuses it."""
        grant = self._check_client(request)
        if isinstance(grant, Response):
            return grant
        try:
            with self._access.holding(grant):  # a ticket is good for one place in the queue
                if self._allocation.waiting:
                    why = f"other clients are waiting for a place; to wait with them, use the WebSocket {QUEUE_PATH}"
                    return busy("full", why)
                with self._allocation.asking(grant.claims, self.addresses.of_request(request)) as place_request:
                    with trio.move_on_after(PATIENCE):
                        await place_request.decided.wait()
                    if place_request.place is None:
                        return busy("full", f"no place is free; to wait for one, use the WebSocket {QUEUE_PATH}")
                    self._access.use(grant)  # last, so that a client that is refused keeps its ticket
                    place_request.kept = True
                    return place_request.place
        except NotAdmitted:
            return busy("full", _FULL)
        except Denied as denied:
            return self._deny(request, denied)


def _redirect(address: str) -> Response:
    return Response(307, "text/plain; charset=utf-8", b"", {"location": address, "cache-control": "no-store"})
