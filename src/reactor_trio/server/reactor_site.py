"""The HTTP paths of a server (viewer page, health, schema, metrics, uploads) and the admission of WebSockets."""

from __future__ import annotations

from functools import partial
from typing import Any

import trio
from msgspec.structs import replace

from reactor_trio.admission import Claims
from reactor_trio.connection import ConnectRequest, parse_connect_request, serve_client
from reactor_trio.connection.resumable_session import ResumableSession
from reactor_trio.edge.access import Grant, shown_token
from reactor_trio.edge.common_responses import busy, json_response
from reactor_trio.edge.denial import DenialReason, Denied
from reactor_trio.edge.request_policy import AccessSite
from reactor_trio.edge.reserved_slots import ReservedUse
from reactor_trio.edge.router import Route
from reactor_trio.server.readiness import readiness
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.upload_route import UPLOAD_PATH, take_upload
from reactor_trio.transport import WEBSOCKET_PATH, BodyTaker, Conversation, MessageChannel, Refused, Request, Response


class ReactorSite(AccessSite):
    """Answers the requests to one runtime; a `transport.Site`."""

    def __init__(self, runtime: Runtime, *bound: str) -> None:
        super().__init__(runtime.facts.settings, runtime.metrics, runtime.access, *bound)
        self._facts = runtime.facts
        self._sessions = runtime.session_manager
        self._pictures = runtime.facts.introduction.pictures
        self._runtime = runtime
        self._route(
            Route("/health", get=self._health), Route("/ready", get=self._ready), Route("/schema", get=self._schema),
            Route("/metrics", get=self._metrics_page), Route(UPLOAD_PATH, post=self._upload, shared=True),
            Route(WEBSOCKET_PATH, websocket=True),
        )  # fmt: skip

    def reserved_use(self, request: Request) -> ReservedUse | None:
        """See `RequestPolicy`. An owner shows the resume token or the upload token of a session."""
        if self._is_handshake(request):
            owns = self._resumed(request) is not None
        else:
            uploads = request.method == "POST" and request.path == UPLOAD_PATH
            owns = uploads and self._sessions.uploaded_to(shown_token(request)) is not None
        return "owner" if owns else super().reserved_use(request)

    def _resumed(self, request: Request) -> ResumableSession | None:
        """Return the session that the client resumes with this request."""
        if request.query.get("role", "control") != "control":
            return None
        return self._sessions.resumable(request.query.get("resume"))

    def _upload(self, request: Request) -> BodyTaker:
        return take_upload(self._sessions, self._runtime.metrics, request)

    def _ready(self, request: Request) -> Response:
        return readiness(self._facts, known=self._known(request) is not None)

    def _schema(self, request: Request) -> Response:
        self._look(request, share_links=True)
        introduction = {"name": self._facts.name, "about": self._facts.introduction.about()}
        schema = None if self._sessions.model is None else self._sessions.model.schema
        return self._described(request, schema, self._busy(), introduction)

    def _end_session(self, session_id: str) -> Response | None:
        return json_response(202, {"session_id": session_id}) if self._runtime.revoke(session_id) else None

    async def admit(self, request: Request) -> Response | Conversation:
        """Refuse a client before the upgrade where possible. A client that comes before `prepare` has ended waits here."""
        if (too_much := self.addresses.refusal(request)) is not None:
            return too_much
        if self._facts.phase in ("loading", "failed"):
            return self._busy(known=self._known(request) is not None)
        await self._runtime.prepared.wait()
        try:
            connect_request, grant = self._introduce(request)
            if (refusal := self._no_session(request, connect_request)) is not None:
                return refusal
            self._access.use(grant)  # last, with no await after it: a refused client keeps its ticket
        except Refused as refused:
            return refused.response
        except Denied as denied:
            return self._deny(request, denied)
        return partial(self._converse, request, connect_request)

    def _introduce(self, request: Request) -> tuple[ConnectRequest, Grant]:
        """Return the client's request and its permissions. Raises Denied, Refused.

        For a client that resumes its session the resume token suffices, and its permissions stay.
        """
        address = self.addresses.of_request(request)
        resumable = self._resumed(request)
        if resumable is not None:
            connect_request = self._parse(request)
            return replace(connect_request, claims=resumable.claims, address=address), Grant(resumable.claims)
        shown = shown_token(request)
        stale = self._sessions.resumable(request.query.get("resume")) is None
        if shown is None and stale and self._access.required and request.query.get("resume"):
            raise Denied("wrong", "no session can be resumed with this token now, and a new one takes the server's token")
        grant = self._look(request, share_links=True)
        connect_request = self._parse(request)
        if connect_request.role == "control" and grant.claims.role == "viewer":
            raise Denied("not_allowed", "this token can only watch, with role=viewer")
        is_the_servers = self._access.required and not self._is_share_link(shown)
        token = None if is_the_servers else shown
        return replace(connect_request, token=token, claims=grant.claims, resume=None, address=address), grant

    def _parse(self, request: Request) -> ConnectRequest:
        tracks = self._sessions.loaded.services.placement.declaration.tracks
        video = [track.name for track in tracks if track.kind == "video" and track.direction == "out"]
        return parse_connect_request(request.query, self._facts.name, video)

    def _look(self, request: Request, *, share_links: bool = False) -> Grant:
        """Return the client's permissions. Raises Denied."""
        if share_links and self._is_share_link(shown_token(request)):
            return Grant(Claims(role="viewer"))
        return super()._look(request)

    def _is_share_link(self, shown: str | None) -> bool:
        return shown is not None and self._sessions.shared_by(shown) is not None

    def _no_session(self, request: Request, connect_request: ConnectRequest) -> Response | None:
        """Return the refusal if this client can get neither a session nor a position in the queue now. Raises Denied."""
        if self._runtime.draining.is_set():
            return busy("draining", "the server is going down")
        if connect_request.role == "viewer":
            return self._no_view(connect_request)
        if connect_request.resume is not None:
            return None  # its session has a slot
        match self._runtime.room.refusal(connect_request):
            case None:
                return None
            case "address_full":
                return self.addresses.queue_full(request)
            case "full":
                return busy("full", "the server is full")
            case "unclaimed":
                raise Denied("expired", "this session is not reserved any more; ask the gate for another")
            case _:
                return self._busy()

    def _no_view(self, connect_request: ConnectRequest) -> Response | None:
        viewers = self._facts.settings.viewers
        if viewers == "none":
            raise Denied("not_allowed", "this server takes no viewers (runtime.viewers: none)")
        if viewers == "token" and connect_request.token is None:
            reason: DenialReason = "not_allowed" if self._access.required else "missing"
            raise Denied(reason, "a viewer needs the token of a share link, which the controlling client has")
        if self._sessions.session_to_view(connect_request) is not None:
            return None
        if connect_request.token is not None:
            raise Denied("wrong", "no session has this token: the share link is wrong, or its session is over")
        return busy("no_session", "no session runs that a viewer could watch")

    async def _converse(self, request: Request, connect_request: ConnectRequest, messages: MessageChannel) -> None:
        with self.addresses.conversation(request) as why_not:
            if why_not is None:
                await serve_client(self._sessions, connect_request, messages)
            else:
                await self._send_away(request, messages, self.addresses.too_many(why_not), why_not)

    def _health(self, request: Request) -> Response:
        """200 or 503 for everyone. Only authenticated requests get details."""
        facts = self._facts
        status = "stuck" if facts.health.hangs else "ok" if facts.phase == "ready" else facts.phase
        code, headers = (200, {}) if status == "ok" else (503, {"retry-after": "1"})
        if (grant := self._known(request)) is None:
            return json_response(code, {"status": status, "phase": facts.phase}, headers)
        body: dict[str, Any] = {
            "status": status,
            "model": facts.name,
            "phase": facts.phase,
            "sessions": facts.admission.live,
            "away": len(self._sessions.away),
            "waiting": facts.admission.waiting,
            "clients": len(self._sessions.clients),
            "encoders": self._runtime.encoders,
        }
        if self._access.required:
            body["role"] = grant.claims.role
        if facts.phase == "loading":
            body["progress"] = facts.progress.as_json()
        if reason := facts.health.stuck or facts.journal.reason or self._grace_left() or facts.health.late:
            body["reason"] = reason
        return json_response(code, body, headers)

    def _grace_left(self) -> str | None:
        left = self._runtime.drains_at - trio.current_time()
        return f"sessions may go on for {left:.0f} s" if left > 0 and self._facts.phase == "draining" else None

    def _busy(self, *, known: bool = True) -> Response:
        """Refuse a client that comes while the server takes none."""
        phase = self._facts.phase
        return busy(phase if phase in ("loading", "failed") else "draining", self._why_not(known=known))

    def _why_not(self, *, known: bool = True) -> str:
        """Say why the server takes no client; how far the load is only to clients that are `known`."""
        if (loading := self._facts.loading) is None:
            return f"the server is {self._facts.phase}"
        return loading if known else "the model is still loading"
