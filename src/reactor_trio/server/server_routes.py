"""`server_routes`: the paths of a server. A server without a model (`standby`) has the same, with other answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reactor_trio.edge.common_routes import end_route, metrics_route, probe_routes
from reactor_trio.edge.grants import SESSION_CREDENTIALS, SHARED_CREDENTIALS, UPLOAD_CREDENTIALS, WORLD_CREDENTIALS
from reactor_trio.edge.router import Handler, Route
from reactor_trio.transport import WEBSOCKET_PATH

UPLOAD_PATH = "/uploads"
MOMENTS_PATH = "/moments"


class Handlers(NamedTuple):
    """What answers on each path of a server but those of the page."""

    health: Handler
    ready: Handler
    schema: Handler
    metrics: Handler
    upload: Handler
    moment: Handler
    session: Handler
    end: Handler


def server_routes(page: Sequence[Route], handlers: Handlers) -> list[Route]:
    """Return all routes of a server; `page`: those of its viewer page."""
    return [
        *page,
        *probe_routes(handlers.health, handlers.ready),
        Route("/schema", handlers.schema, credentials=SHARED_CREDENTIALS, required=True),
        metrics_route(handlers.metrics),
        Route(UPLOAD_PATH, handlers.upload, method="POST", credentials=UPLOAD_CREDENTIALS, body="taken", shared=True),
        Route(f"{MOMENTS_PATH}/*", handlers.moment, credentials=WORLD_CREDENTIALS, shared=True),
        Route(
            WEBSOCKET_PATH, handlers.session, credentials=SESSION_CREDENTIALS, websocket=True, limit="address_handshakes"
        ),
        end_route(handlers.end),
    ]  # fmt: skip
