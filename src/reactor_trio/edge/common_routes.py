"""Routes that server, gate and standby have alike: the viewer page, `/metrics`, and the end of a session; and `/schema`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from reactor_trio.configuration.introduction import PICTURES, Picture
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.edge.common_responses import json_response, page_response, picture_response
from reactor_trio.edge.grants import SERVER_CREDENTIALS, SHARED_CREDENTIALS, Grant
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.edge.router import Handler, Route, part_of
from reactor_trio.protocol import asyncapi_document
from reactor_trio.transport import Exchange, Refusal, Refused, Request, Response

SESSIONS_PATH = "/v1/sessions"

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SCHEMA_FORMATS = ("json", "about", "asyncapi", "typescript", "python")


def page_routes(frame_ancestors: Sequence[str], pictures: Mapping[str, Picture] | None = None) -> list[Route]:
    """The viewer page, and the pictures of the model's introduction. They take no credential."""

    async def page(exchange: Exchange, _grant: Grant) -> Response:
        return page_response(exchange.request, frame_ancestors)

    async def picture(exchange: Exchange, _grant: Grant) -> Response:
        return picture_response(exchange.request, pictures or {})

    return [
        Route("/", page), Route("/favicon.ico", page, listed=False), Route("/page/*", page, shared=True, listed=False),
        Route(f"/{PICTURES}/*", picture, listed=False),
    ]  # fmt: skip


def probe_routes(health: Handler, ready: Handler) -> list[Route]:
    """`/health` and `/ready`. They count in no limit, so a supervisor may request them as often as it wants."""
    return [
        Route("/health", health, credentials=SHARED_CREDENTIALS, limit=None, reserved=True),
        Route("/ready", ready, credentials=SHARED_CREDENTIALS, limit=None, reserved=True),
    ]


def metrics_route(handle: Handler) -> Route:
    """`/metrics`, for the server's token, and its viewers'."""
    return Route("/metrics", handle, credentials=SERVER_CREDENTIALS, required=True, reserved=True)


def metrics_handler(metrics: RequestMetrics) -> Handler:
    """Return what answers `/metrics`."""

    async def page(_exchange: Exchange, grant: Grant) -> Response:
        if grant.ticket is not None:
            raise Refused(Refusal("not_allowed", "/metrics wants the server's token, or its viewers'"))
        return Response(200, _METRICS_TYPE, metrics.exposition())

    return page


def end_route(handle: Handler) -> Route:
    """`DELETE /v1/sessions/ID`, for the server's token and for the ticket to that session."""
    return Route(f"{SESSIONS_PATH}/ID", handle, method="DELETE", credentials=SERVER_CREDENTIALS, required=True)


def end_handler(access: Access, find: Callable[[str], Callable[[], Response] | None]) -> Handler:
    """Return what ends a session.

    A server without authentication refuses it to every client, because viewers know the session's id, too.

    Args:
        find: returns what ends the session with this id; None without one.
    """

    async def end(exchange: Exchange, grant: Grant) -> Response:
        session_id = part_of(exchange.request.path, SESSIONS_PATH)
        if not access.required:
            raise Refused(Refusal("not_allowed", "to end sessions takes the server's token: set runtime.auth.token"))
        if grant.claims.role == "viewer" or (grant.ticket is not None and grant.claims.session_id != session_id):
            why = "to end a session takes the server's token, or the ticket for that session"
            raise Refused(Refusal("not_allowed", why))
        if (end_it := find(session_id)) is None:
            raise Refused(Refusal("not_found", f"no session {session_id} is here"))
        access.use(grant)  # last: a request that is refused keeps its ticket
        return end_it()

    return end


class ModelSchema:
    """A model's `schema`, and the texts of its types. Each text is written once: it takes milliseconds of the loop."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._types: dict[str, bytes] = {}

    def types(self, language: Literal["python", "typescript"]) -> bytes:
        """Return the source text with the types of the model."""
        if language not in self._types:
            from reactor_trio.typegen import types_of  # few servers are asked for types

            plain = msgspec.json.decode(msgspec.json.encode(self.schema))
            self._types[language] = types_of(plain, language).encode()
        return self._types[language]


def described(
    request: Request, settings: Settings, model: ModelSchema | None, otherwise: Refusal,
    introduction: dict[str, Any] | None = None,
) -> Response:  # fmt: skip
    """Answer `GET /schema`. Raises Refused; `otherwise` without a model.

    Args:
        introduction: `name` and `about` as far as they are known without a schema, for `format=about`.
    """
    form = request.query.get("format", "json")
    if form not in _SCHEMA_FORMATS:
        raise Refused(Refusal("bad_request", f"format={form}: expected {' or '.join(_SCHEMA_FORMATS)}"))
    schema = None if model is None else model.schema
    if form == "about" and (known := schema or introduction):
        return json_response(200, {key: known.get(key) for key in ("name", "about")})
    if model is None or schema is None:
        raise Refused(otherwise)
    if form in ("typescript", "python"):
        return Response(200, "text/plain; charset=utf-8", model.types("python" if form == "python" else "typescript"))
    if form == "asyncapi":
        secure = request.header("x-forwarded-proto") == "https" or settings.tls is not None
        return json_response(200, asyncapi_document(schema, host=request.authority or request.host, secure=secure))
    return json_response(200, schema)
