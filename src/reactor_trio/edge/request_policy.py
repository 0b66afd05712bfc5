"""The rules that server and gate apply to every request: hosts, origins, limits, and authentication."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio

from reactor_trio.configuration.introduction import Picture
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access, Grant, shown_token
from reactor_trio.edge.address_limits import Addresses, is_everywhere, is_loopback, is_own_address, network_of, own_name
from reactor_trio.edge.common_responses import is_page_file, json_response, page_response, picture_response
from reactor_trio.edge.denial import FAILURES, DenialLog, Denied
from reactor_trio.edge.request_metrics import LimitKind, RequestMetrics
from reactor_trio.edge.reserved_slots import ReservedUse
from reactor_trio.edge.router import Route, Router, part_of
from reactor_trio.protocol import asyncapi_document
from reactor_trio.protocol.reasons import refusal_close_code
from reactor_trio.protocol.refusals import REFUSALS
from reactor_trio.transport import (
    WEBSOCKET_PATH,
    BodyTaker,
    Conversation,
    Limits,
    MessageChannel,
    Refused,
    Request,
    Response,
)
from reactor_trio.transport.refusal_bye import refuse_inside, wants_bye
from reactor_trio.transport.upgrade import check_handshake, wants_websocket

SESSIONS_PATH = "/v1/sessions"
#: Paths that every client may request as often as it wants, because those who watch over the server do.
PROBES = ("/health", "/ready")
#: Paths for those who watch over the server. They have reserved slots, and with `runtime.management` a port of their own.
WATCHED = (*PROBES, "/metrics")

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SCHEMA_FORMATS = ("json", "about", "asyncapi", "typescript", "python")


class RequestPolicy:
    """The hosts and origins that a site accepts, and the limits of its connections, from the settings.

    Args:
        settings: of the server.
        bound: addresses at which the server listens, if they are known; `settings.host` is always one.
        metrics: counts connections and refusals.

    Attributes:
        addresses: the limits of each client address.
        most_connections: at a time.
        frame_ancestors: pages that may show the viewer page in a frame.
        methods: the HTTP methods that the site accepts.
        websockets: the paths that are WebSockets.
        shared: paths whose responses pages of the manifest's origins may read, besides the files of the viewer page.
        limits: of one connection.
    """

    methods: Sequence[str] = ("GET", "HEAD")
    websockets: Sequence[str] = (WEBSOCKET_PATH,)
    shared: Sequence[str] = ()

    def __init__(self, settings: Settings, *bound: str, metrics: RequestMetrics | None = None) -> None:
        given = settings.limits
        self.metrics = metrics or RequestMetrics()
        self.addresses = Addresses(given, settings.proxies, self.metrics.limited)
        self.most_connections = given.connections
        self.limits = Limits(
            text_message=given.text_message, binary_message=given.client_binary, text_per_second=given.text_per_second,
            http_head=given.http_head, body_time=settings.uploads.time, handshake=given.handshake,
            ping_interval=given.ping_interval, silence=given.silence, stall=given.stall,
        )  # fmt: skip
        self._hosts = {host.lower().strip("[]") for host in (settings.host, *bound, *settings.hosts)}
        self._everywhere = any(map(is_everywhere, (settings.host, *bound)))
        if self._everywhere:
            self._hosts.add(own_name())
        self._origins = set(settings.origins)
        self.frame_ancestors = settings.frame_ancestors

    def hosts_allowed(self, host: str) -> bool:
        """Accept a loopback name, the bound address, a host of the manifest, and this machine's own if bound to all.

        A foreign page can point a name of its own at this machine (DNS rebinding), and a browser then sends that name.
        Therefore names are only compared with known names, never looked up. An IP address is safe: no DNS
        record can point it elsewhere.
        """
        return host in self._hosts or is_loopback(host) or (self._everywhere and is_own_address(host))

    def origin_allowed(self, origin: str | None, request: Request) -> bool:
        """Accept no origin, the same origin, and an origin of the manifest.

        The scheme is not compared: behind a proxy that ends TLS, the page has https and this request has http.
        """
        if origin is None or origin in self._origins or "*" in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:  # `http://[`
            return False
        if parts.scheme not in ("http", "https"):
            return False
        default = ":443" if parts.scheme == "https" else ":80"
        return parts.netloc.lower().removesuffix(default) == request.authority.removesuffix(default)

    def shared_with(self, request: Request) -> str | None:
        """Return the origin of the requesting page if the manifest lists it and its pages may read the answer."""
        match request.header_values("origin"):
            case [origin] if origin in self._origins or "*" in self._origins:
                return origin if request.path in self.shared or is_page_file(request) else None
        return None

    def reserved_use(self, request: Request) -> ReservedUse | None:
        """Return what a request is good for on a connection above `most_connections`; None: it is refused."""
        has_body = request.header("content-length") or request.header("transfer-encoding")
        return "probe" if request.path in WATCHED and request.method in ("GET", "HEAD") and not has_body else None

    def _is_handshake(self, request: Request) -> bool:
        """Whether the request is a WebSocket handshake that reaches `admit`."""
        if not wants_websocket(request) or not self._from_allowed_page(request):
            return False
        try:
            check_handshake(request, "1.1", self.websockets)
        except Refused:
            return False
        return True

    def _from_allowed_page(self, request: Request) -> bool:
        origins = request.header_values("origin")
        return len(origins) < 2 and self.origin_allowed(origins[0] if origins else None, request)

    def over_limit(self, request: Request) -> Response | None:
        """See `Site`. Without limits by address there are never too many."""
        return None

    def refused_socket(self, request: Request) -> AbstractContextManager[bool]:
        """See `Site`. Without limits by address there are never too many."""
        return nullcontext(True)


class AccessSite(RequestPolicy):
    """A site with authentication, limits for each address, and the responses that server and gate give alike."""

    def __init__(self, settings: Settings, metrics: RequestMetrics, access: Access, *bound: str) -> None:
        super().__init__(settings, *bound, metrics=metrics)
        self._access = access
        self._tls = settings.tls is not None
        self._denials = DenialLog()
        #: the pictures of the model's introduction; who may load the page may load them
        self._pictures: Mapping[str, Picture] = {}

    def respond(self, request: Request) -> Response:
        """See `Site`."""
        page = page_response(request, self.frame_ancestors) or picture_response(request, self._pictures)
        if page is not None:
            return page
        try:
            return self._router.answer(request)
        except Denied as denied:
            return self._deny_unless_too_many(request, denied)

    def over_limit(self, request: Request) -> Response | None:
        """See `Site`. A handshake is counted in `admit`."""
        return self.addresses.over_limit(request) if self._counts_as(request) == "address_requests" else None

    def take_body(self, request: Request) -> BodyTaker | None:
        """See `Site`. Raises Refused."""
        try:
            return self._router.body_taker(request)
        except Denied as denied:
            raise Refused(self._deny(request, denied)) from None

    def refused_socket(self, request: Request) -> AbstractContextManager[bool]:
        """See `Site`."""
        return self.addresses.refused_socket(request)

    @abstractmethod
    async def admit(self, request: Request) -> Response | Conversation:
        """See `Site`."""

    @abstractmethod
    def _end_session(self, session_id: str) -> Response | None:
        """End the session; None if there is no session of this id."""

    def _route(self, *routes: Route) -> None:
        """Have these routes, besides those of the page."""
        self._router = router = Router(*routes, Route(f"{SESSIONS_PATH}/ID", delete=self._end))
        self.methods, self.websockets, self.shared = router.methods, router.websockets, router.shared

    def _end(self, request: Request) -> Response:
        """Answer `DELETE /v1/sessions/ID`, for the server's token and for the ticket to that session. Raises Denied.

        A server without authentication refuses it to every client, because viewers know the session's id, too.
        """
        session_id = part_of(request.path, SESSIONS_PATH)
        grant = self._look(request)
        if not self._access.required:
            raise Denied("not_allowed", "to end sessions takes the server's token: set runtime.auth.token")
        if grant.claims.role == "viewer" or (grant.ticket is not None and grant.claims.session_id != session_id):
            raise Denied("not_allowed", "to end a session takes the server's token, or the ticket for that session")
        self._access.use(grant)
        return self._end_session(session_id) or Response.refusing("not_found", f"no session {session_id} is here")

    def _counts_as(self, request: Request) -> LimitKind | None:
        """Return the limit of its address in which a request counts. A handshake counts in `admit`, if it gets there."""
        if self._is_handshake(request):
            return "address_handshakes"
        return None if request.path in PROBES else "address_requests"

    def _look(self, request: Request, *, share_links: bool = False) -> Grant:
        """Return what the client may do. At a server share links count if `share_links`; they lead to it. Raises Denied."""
        return self._access.check(shown_token(request))

    def _known(self, request: Request) -> Grant | None:
        """Return what the client may do; None if it may only ask for the server's status.

        Raises Refused if its address has shown too many wrong credentials.
        """
        try:
            return self._look(request, share_links=True)
        except Denied as denied:
            if denied.reason != "missing":
                self._deny_unless_too_many(request, denied)
            return None

    def _deny_unless_too_many(self, request: Request, denied: Denied) -> Response:
        """As `_deny`. Raises Refused for too many failures, so that a connection carries no more guesses."""
        response = self._deny(request, denied)
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise Refused(response)
        return response

    def _deny(self, request: Request, denied: Denied) -> Response:
        """Count and log a denied request and return its response: 429 if its address has shown too many credentials
        that are not good. The credential was checked before, so a good one never gets that.
        """
        self.metrics.denied(denied.reason)
        address = self.addresses.of_request(request) or network_of(request.peer)
        self._denials.note(address, denied, trio.current_time())
        if denied.reason in FAILURES:
            too_many = self.addresses.failed(request, self._counts_as(request))
            if too_many is not None:
                return too_many
        code = denied.code
        headers = {"www-authenticate": "Bearer"} if REFUSALS[code].status == HTTPStatus.UNAUTHORIZED else {}
        return Response.refusing(code, denied.message, {"retry-after": "60"} if code == "tickets_full" else headers)

    async def _send_away(
        self, request: Request, messages: MessageChannel, refusal: Response, why: str, code: int | None = None
    ) -> None:
        """Refuse a client that has its WebSocket already: as it asked, or by a close frame with the reason `why`."""
        if wants_bye(request):
            await refuse_inside(messages, refusal)
        else:
            await messages.aclose(code or refusal_close_code(refusal.status), why)

    def _metrics_page(self, request: Request) -> Response:
        """Answer `GET /metrics`. Raises Denied."""
        if self._look(request).ticket is not None:
            raise Denied("not_allowed", "/metrics wants the server's token, or its viewers'")
        return Response(200, _METRICS_TYPE, self.metrics.exposition())

    def _described(
        self, request: Request, schema: dict[str, Any] | None, otherwise: Response,
        introduction: dict[str, Any] | None = None,
    ) -> Response:  # fmt: skip
        """Answer `GET /schema`. Without a schema the response is `otherwise`.

        Args:
            introduction: `name` and `about` as far as they are known without a schema, for `format=about`.
        """
        form = request.query.get("format", "json")
        if form not in _SCHEMA_FORMATS:
            return Response.refusing("bad_request", f"format={form}: expected {' or '.join(_SCHEMA_FORMATS)}")
        if form == "about" and (known := schema or introduction):
            return json_response(200, {key: known.get(key) for key in ("name", "about")})
        if schema is None:
            return otherwise
        if form in ("typescript", "python"):
            from reactor_trio.typegen import types_of  # few servers are asked for types

            text = types_of(msgspec.json.decode(msgspec.json.encode(schema)), "python" if form == "python" else "typescript")
            return Response(200, "text/plain; charset=utf-8", text.encode())
        if form == "asyncapi":
            secure = request.header("x-forwarded-proto") == "https" or self._tls
            return json_response(200, asyncapi_document(schema, host=request.authority or request.host, secure=secure))
        return json_response(200, schema)
