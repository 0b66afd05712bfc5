"""The answers of a server on its routes: viewer page, health, schema, metrics, uploads, pictures, a session's WebSocket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
from msgspec import UNSET
from msgspec.structs import replace

from reactor_trio.admission import RefusalReason
from reactor_trio.connection import ConnectRequest, ServedSession, parse_connect_request, serve_client
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.common_responses import Health, health_response, json_response
from reactor_trio.edge.common_routes import described, end_handler, metrics_handler, page_routes
from reactor_trio.edge.grants import Grant
from reactor_trio.edge.not_admitted import refusal
from reactor_trio.edge.router import Route
from reactor_trio.edge.site import Site
from reactor_trio.errors import CommandError
from reactor_trio.server.moment_handler import moment_handler
from reactor_trio.server.readiness import readiness
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.server_routes import Handlers, server_routes
from reactor_trio.server.upload_handler import upload_handler
from reactor_trio.transport import Conversation, Exchange, Refusal, Refused, Response


def reactor_site(runtime: Runtime, *bound: str) -> Site:
    """What a server serves. `bound`: addresses at which it listens, if they are known."""
    settings = runtime.facts.settings
    addresses = AddressLimits(settings.limits, settings.proxies)
    routes = ReactorRoutes(runtime).routes()
    return Site(settings, routes, runtime.access, runtime.metrics, addresses, *bound)


class ReactorRoutes:
    """Answers the requests to one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._facts = runtime.facts
        self._sessions = runtime.session_manager
        self._runtime = runtime

    def routes(self) -> list[Route]:
        """All of them."""
        facts, runtime = self._facts, self._runtime
        handlers = Handlers(
            self._health, self._ready, self._schema, metrics_handler(runtime.metrics),
            upload_handler(self._sessions, runtime.metrics), moment_handler(self._sessions), self._session,
            end_handler(runtime.access, self._end),
        )  # fmt: skip
        return server_routes(page_routes(facts.settings.frame_ancestors, facts.introduction.pictures), handlers)

    async def _ready(self, _exchange: Exchange, grant: Grant) -> Response:
        return readiness(self._facts, known=grant.refusal is None)

    async def _schema(self, exchange: Exchange, _grant: Grant) -> Response:
        introduction = {"name": self._facts.name, "about": self._facts.introduction.about()}
        model = None if self._sessions.model is None else self._sessions.model.described
        return described(exchange.request, self._facts.settings, model, self._takes_none(), introduction)

    def _end(self, session_id: str) -> Callable[[], Response] | None:
        if (revoke := self._runtime.revocation(session_id)) is None:
            return None

        def end() -> Response:
            revoke()
            return json_response(202, {"session_id": session_id})

        return end

    async def _session(self, exchange: Exchange, grant: Grant) -> Conversation:
        """Let a client in that gets a session or a position in the queue now."""
        counted = exchange.counted
        self._sessions.websockets.add(counted)  # the end of the server waits for it
        counted.callback(self._sessions.left.set)
        counted.callback(self._sessions.websockets.discard, counted)
        if self._facts.phase not in ("loading", "failed"):
            await self._runtime.preparation.tried.wait()
        if self._facts.phase in ("loading", "failed"):
            raise Refused(self._takes_none(known=grant.refusal is None))
        if self._runtime.access.required:
            grant.required()
        request = self._wishes(exchange, grant)
        if request.role == "control" and grant.claims.role == "viewer":
            raise Refused(Refusal("not_allowed", "this token can only watch, with role=viewer"))
        if request.begins_at is not None and grant.kind != "resume":
            await self._look_for_world(request.begins_at, request)
        joins = self._session_of(request, grant)
        self._runtime.access.use(grant)  # last, with no await after it: a refused client keeps its ticket
        return partial(serve_client, self._sessions, request, joins, partial(self._refuse_late, grant))

    async def _look_for_world(self, id: str, request: ConnectRequest) -> None:  # noqa: A002
        """Raise Refused if the client's session cannot begin at this world."""
        worlds = self._sessions.loaded.services.worlds
        try:
            if worlds is None:
                raise CommandError("not_saveable", "no session of this server can begin at a saved world")
            await worlds.look(id, request.claims.subject or "")
        except CommandError as error:
            raise Refused(Refusal("no_world", f"{error.code}: {error.message}")) from None

    def _refuse_late(self, grant: Grant, reason: RefusalReason) -> Refusal:
        """Give the client's ticket back: one that came at the same time has taken the slot."""
        self._runtime.access.give_back(grant)
        return self._not_admitted(reason)

    def _wishes(self, exchange: Exchange, grant: Grant) -> ConnectRequest:
        """Return the request of a client with what its credentials allow. Raises Refused."""
        tracks = self._sessions.loaded.services.placement.declaration.tracks
        video = [track.name for track in tracks if track.kind == "video" and track.direction == "out"]
        request = parse_connect_request(exchange.request.query, self._facts.name, video)
        return replace(request, claims=grant.claims, address=exchange.address)

    def _session_of(self, request: ConnectRequest, grant: Grant) -> ServedSession | None:
        """Return the session that this client watches or comes back to; None if it gets a new one, perhaps after a wait.

        Raises Refused if it can get none of these now.
        """
        if self._runtime.closing.is_set():
            raise Refused(Refusal("draining", "the server is going down"))
        if request.role == "viewer":
            return self._watched(grant)
        if grant.kind == "resume":
            resumed: ServedSession = grant.owner
            return resumed
        if (reason := self._runtime.waiting_room.refusal(request)) is not None:
            raise Refused(self._not_admitted(reason))
        return None

    def _not_admitted(self, reason: RefusalReason) -> Refusal:
        return refusal(reason, full="the server is full", closed=self._takes_none())

    def _watched(self, grant: Grant) -> ServedSession:
        """Return the session of a viewer's share token, or without one the oldest that runs. Raises Refused."""
        viewers = self._facts.settings.viewers
        if viewers == "none":
            raise Refused(Refusal("not_allowed", "this server takes no viewers (runtime.viewers: none)"))
        grant.required()
        if viewers == "token" and grant.kind != "share":
            why = "a viewer needs the token of a share link, which the controlling client has"
            raise Refused(Refusal("not_allowed" if self._runtime.access.required else "token_missing", why))
        watched: ServedSession | None = grant.owner if grant.kind == "share" else next(iter(self._sessions.running), None)
        if watched is None:
            raise Refused(Refusal("no_session", "no session runs that a viewer could watch"))
        return watched

    async def _health(self, _exchange: Exchange, grant: Grant) -> Response:
        facts = self._facts
        health = Health(
            status="stuck" if facts.health.hangs else "ok" if facts.phase == "ready" else facts.phase,
            phase=facts.phase, model=facts.name, sessions=facts.admission.live, away=len(self._sessions.away),
            waiting=facts.admission.waiting, clients=len(self._sessions.clients),
            encoders=self._runtime.preparation.encoders, role=grant.claims.role if self._runtime.access.required else UNSET,
            progress=facts.progress.as_json() if facts.phase == "loading" else UNSET,
            reason=facts.health.stuck or facts.journal.reason or self._grace_left() or facts.health.late or UNSET,
        )  # fmt: skip
        return health_response(health, grant)

    def _grace_left(self) -> str | None:
        left = self._runtime.drains_at - trio.current_time()
        return f"sessions may go on for {left:.0f} s" if left > 0 and self._facts.phase == "draining" else None

    def _takes_none(self, *, known: bool = True) -> Refusal:
        """Return the refusal while the server takes no client. Only a `known` client learns how far a load is."""
        phase, loading = self._facts.phase, self._facts.loading
        stopped = "the server has failed" if phase == "failed" else f"the server is {phase}"
        why = stopped if loading is None else loading if known else "the model is still loading"
        return Refusal(phase if phase in ("loading", "failed") else "draining", why)
