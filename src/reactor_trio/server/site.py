"""The one port's paths: viewer page, health, schema, metrics, uploads, and who may open a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio
from msgspec.structs import replace

from reactor_trio.admission import Claims
from reactor_trio.connection import Hello, HelloRefused, converse, parse_hello
from reactor_trio.protocol import asyncapi_document, close_code
from reactor_trio.server.access import DenialLog, DenialReason, Denied, Grant, shown_token
from reactor_trio.server.addresses import Addresses, is_loopback, network_of
from reactor_trio.server.readiness import readiness
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.settings import Settings
from reactor_trio.server.uploads import UPLOAD_PATH, take_upload
from reactor_trio.transport import (
    WEBSOCKET_PATH,
    BodyTaker,
    Conversation,
    Limits,
    MessageStream,
    Refused,
    Request,
    Response,
)

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' blob:; connect-src 'self' ws: wss:; base-uri 'none'; frame-ancestors 'self'"
)
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Doorman:
    """Who may ask, and how much one connection may use: what the settings say of every site.

    Attributes:
        methods: what it takes.
        websockets: the paths that are WebSockets.
    """

    methods: Sequence[str] = ("GET", "HEAD")
    websockets: Sequence[str] = (WEBSOCKET_PATH,)

    def __init__(self, settings: Settings, bound: str) -> None:
        self._limits = settings.limits
        self._body_time = settings.uploads.time
        self._hosts = {host.lower().strip("[]") for host in (bound, *settings.hosts)}
        self._origins = set(settings.origins)

    @property
    def limits(self) -> Limits:
        """What one connection may use, as the manifest says."""
        given = self._limits
        return Limits(
            text_message=given.text_message, binary_message=given.client_binary, http_head=given.http_head,
            body_time=self._body_time, handshake=given.handshake, ping_interval=given.ping_interval,
            silence=given.silence, stall=given.stall,
        )  # fmt: skip

    def hosts_allowed(self, host: str) -> bool:
        """A loopback name, the bound address, or a host that the manifest lists."""
        return host in self._hosts or is_loopback(host)

    def origin_allowed(self, origin: str | None, request: Request) -> bool:
        """No origin, the same origin, or one that the manifest lists.

        The scheme is not compared: behind a proxy that ends TLS the page is https and this request is not.
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


class ReactorSite(Doorman):
    """What a runtime answers; a `transport.Site`.

    Attributes:
        addresses: what each address may have.
    """

    methods: Sequence[str] = ("GET", "HEAD", "POST")

    def __init__(self, runtime: Runtime, bound: str) -> None:
        super().__init__(runtime.settings, bound)
        self._runtime = runtime
        self._denials = DenialLog()
        self.addresses = Addresses(runtime.settings.limits, runtime.settings.proxies, runtime.metrics.limited)

    def take_body(self, request: Request) -> BodyTaker | None:
        """Uploads; nothing else here takes a body."""
        if request.path != UPLOAD_PATH:
            raise Refused.because(405, f"{request.method} is for {UPLOAD_PATH} only", {"allow": "GET, HEAD"})
        return take_upload(self._runtime, request)

    def respond(self, request: Request) -> Response:
        """Answer a plain request."""
        if (page := page_response(request)) is not None:
            return page
        try:
            return self._answer(request)
        except Denied as denied:
            return self._deny(request, denied)

    def _answer(self, request: Request) -> Response:
        match request.path:
            case path if path == UPLOAD_PATH:
                return Response.plain(405, f"{UPLOAD_PATH} takes files with POST", {"allow": "POST"})
            case "/health":
                return self._health(request)
            case "/ready":
                return readiness(self._runtime, known=self._known(request) is not None)
            case "/schema":
                self._look(request, share_links=True)
                return self._schema(request)
            case "/metrics":
                if self._look(request).ticket is not None:
                    raise Denied("not_allowed", "/metrics wants the server's token, or its viewers'")
                return Response(200, METRICS_TYPE, self._runtime.metrics.exposition())
        known = "/, /health, /ready, /schema, /metrics, /uploads and the WebSocket /ws"
        return Response.plain(404, f"not found; there are {known}")

    async def admit(self, request: Request) -> Response | Conversation:
        """Refuse what can be refused before the upgrade; who comes right after the start waits."""
        if (too_much := self.addresses.refusal(request)) is not None:
            return too_much
        if self._runtime.journal.phase in ("loading", "failed"):
            return busy(self._why_not())
        await self._runtime.prepared.wait()
        try:
            hello, grant = self._introduce(request)
            if (refusal := self._no_session(request, hello)) is not None:
                return refusal
            self._runtime.access.use(grant)  # last, and nothing is awaited after it: who is refused keeps the ticket
        except HelloRefused as refused:
            return Response.plain(refused.status, refused.message)
        except Denied as denied:
            return self._deny(request, denied)
        return partial(self._converse, request, hello)

    def _introduce(self, request: Request) -> tuple[Hello, Grant]:
        """What the client wants and what it may. Raises Denied, HelloRefused."""
        if (returning := self._returning(request)) is not None:
            return returning
        grant, shown = self._look(request, share_links=True), shown_token(request)
        hello = parse_hello(request.query, self._runtime.name)
        if hello.role == "control" and grant.claims.role == "viewer":
            raise Denied("not_allowed", "this token can only watch, with role=viewer")
        is_the_servers = self._runtime.access.required and not self._is_share_link(shown)
        return replace(hello, token=None if is_the_servers else shown, claims=grant.claims, resume=None,
                       address=self.addresses.of_request(request)), grant  # fmt: skip

    def _returning(self, request: Request) -> tuple[Hello, Grant] | None:
        """The same of a client that comes back to its session: the token alone shows that, and what it may do holds."""
        stay = self._runtime.desk.stays.of_token(request.query.get("resume"))
        if stay is None or request.query.get("role", "control") != "control":
            return None
        hello = parse_hello(request.query, self._runtime.name)
        return replace(hello, claims=stay.claims, address=self.addresses.of_request(request)), Grant(stay.claims)

    def _look(self, request: Request, *, share_links: bool = False) -> Grant:
        """What the client may do. Raises Denied."""
        shown = shown_token(request)
        if share_links and self._is_share_link(shown):
            return Grant(Claims(role="viewer"))
        return self._runtime.access.check(shown)

    def _known(self, request: Request) -> Grant | None:
        """What the client may do; None for who may not come in, but may ask how the server is."""
        try:
            return self._look(request, share_links=True)
        except Denied as denied:
            if denied.reason != "missing":
                self._deny(request, denied)
            return None

    def _is_share_link(self, shown: str | None) -> bool:
        return shown is not None and self._runtime.sessions.shared(shown) is not None

    def _deny(self, request: Request, denied: Denied) -> Response:
        self._runtime.metrics.denied(denied.reason)
        address = self.addresses.of_request(request) or network_of(request.peer)
        self._denials.note(address, denied, trio.current_time())
        return denied.response

    def _no_session(self, request: Request, hello: Hello) -> Response | None:
        """Why there is no session, or no place, for this client now. Raises Denied."""
        if self._runtime.draining.is_set():
            return busy("the server is going down")
        if hello.role == "viewer":
            return self._no_view(hello)
        if hello.resume is not None:
            return None  # its session has a slot
        match self._runtime.room.refusal(hello):
            case None:
                return None
            case "address_full":
                return self.addresses.queue_full(request)
            case "full":
                return busy("the server is full")
            case "unclaimed":
                raise Denied("expired", "this session is not reserved any more; ask the gate for another")
            case _:
                return busy(self._why_not())

    def _no_view(self, hello: Hello) -> Response | None:
        viewers = self._runtime.settings.viewers
        if viewers == "none":
            raise Denied("not_allowed", "this server takes no viewers (runtime.viewers: none)")
        if viewers == "token" and hello.token is None:
            reason: DenialReason = "not_allowed" if self._runtime.access.required else "missing"
            raise Denied(reason, "a viewer needs the token of a share link, which the controlling client has")
        if self._runtime.desk.session_to_view(hello) is not None:
            return None
        if hello.token is not None:
            raise Denied("wrong", "no session has this token: the share link is wrong, or its session is over")
        return busy("no session runs that a viewer could watch")

    async def _converse(self, request: Request, hello: Hello, messages: MessageStream) -> None:
        with self.addresses.conversation(request) as why_not:
            if why_not is None:
                await converse(self._runtime.desk, hello, messages)
            else:
                await messages.aclose(close_code("no_room"), why_not)

    def _schema(self, request: Request) -> Response:
        schema, form = self._runtime.schema, request.query.get("format", "json")
        if form not in ("json", "asyncapi"):
            return Response.plain(400, f"format={form}: expected json (the default) or asyncapi")
        if schema is None:
            return busy(self._why_not())
        if form == "asyncapi":
            secure = request.header("x-forwarded-proto") == "https" or self._runtime.settings.tls is not None
            return json_response(200, asyncapi_document(schema, host=request.authority or request.host, secure=secure))
        return json_response(200, schema)

    def _health(self, request: Request) -> Response:
        """200 or 503 for everybody; how the server is only for who may come in."""
        runtime = self._runtime
        phase = runtime.journal.phase
        status = "stuck" if runtime.stuck is not None else "ok" if phase == "ready" else phase
        code, headers = (200, {}) if status == "ok" else (503, {"retry-after": "1"})
        if (grant := self._known(request)) is None:
            return json_response(code, {"status": status, "phase": phase}, headers)
        body: dict[str, Any] = {
            "status": status,
            "model": runtime.name,
            "phase": phase,
            "sessions": runtime.room.admission.live,
            "away": len(runtime.desk.stays.away),
            "waiting": runtime.room.admission.waiting,
            "clients": runtime.desk.present,
            "encoders": runtime.encoders,
        }
        if self._runtime.access.required:
            body["role"] = grant.claims.role
        if reason := runtime.stuck or runtime.journal.reason or self._grace_left():
            body["reason"] = reason
        return json_response(code, body, headers)

    def _grace_left(self) -> str | None:
        ends, now = self._runtime.drains_at, trio.current_time()
        draining = self._runtime.journal.phase == "draining" and ends is not None and ends > now
        return f"sessions may go on for {ends - now:.0f} s" if draining and ends is not None else None

    def _why_not(self) -> str:
        phase = self._runtime.journal.phase
        return "the model is still loading" if phase == "loading" else f"the server is {phase}"


def busy(message: str) -> Response:
    """503, for a moment."""
    return Response.plain(503, message, {"retry-after": "1"})


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """`body` as JSON."""
    return Response(status, "application/json", msgspec.json.encode(body), headers or {})


def page_response(request: Request) -> Response | None:
    """A file of the viewer page, None if that is not what is asked for."""
    match request.path:
        case "/":
            return _page_file("index.html")
        case "/favicon.ico":
            return _page_file("icon.svg")
        case path if path.startswith("/page/"):
            return _page_file(path.removeprefix("/page/"))
    return None


def _page_file(name: str) -> Response:
    kind = _CONTENT_TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in _page_files():
        return Response.plain(404, "no such file")
    return Response(200, kind, _page_data(name), {"content-security-policy": _PAGE_POLICY})


@cache
def _page_files() -> frozenset[str]:
    """The viewer page's files. A name that a client sends is looked up here: no path is made of it, nothing kept for it."""
    return frozenset(file.name for file in resources.files("reactor_trio").joinpath("page").iterdir() if file.is_file())


@cache
def _page_data(name: str) -> bytes:
    """A file of the page; they are few, small and do not change while the server runs."""
    return resources.files("reactor_trio").joinpath("page", name).read_bytes()
