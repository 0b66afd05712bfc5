"""The port of `runtime.management`: `/health`, `/ready` and `/metrics` on a port of their own.

Clients cannot reach that port, so whatever they do to the other one, probes and scrapes get their answer. It speaks plain
HTTP. Its answers are those of the other port, so `/metrics` takes the same token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.acceptor import Acceptor, bound_addresses
from reactor_trio.edge.address_limits import page_urls
from reactor_trio.edge.request_policy import WATCHED, AccessSite, RequestPolicy
from reactor_trio.transport import BodyTaker, Conversation, Request, Response

log = logging.getLogger("reactor_trio.server")


class ManagementSite(RequestPolicy):
    """The `transport.Site` of that port.

    Args:
        site: that of the other port, which answers.
        bound: addresses at which this port listens.
    """

    websockets: Sequence[str] = ()

    def __init__(self, site: AccessSite, settings: Settings, *bound: str) -> None:
        assert settings.management is not None
        super().__init__(msgspec.structs.replace(settings, host=settings.management.host), *bound, metrics=site.metrics)
        self._site = site

    def respond(self, request: Request) -> Response:
        """Answer as the other port does."""
        if request.path in WATCHED:
            return self._site.respond(request)
        return Response.refusing("not_found", f"not found; this port has {', '.join(WATCHED)}")

    def take_body(self, request: Request) -> BodyTaker | None:
        """Return None: the port takes only GET and HEAD."""
        return None

    async def admit(self, request: Request) -> Response | Conversation:
        """Refuse every WebSocket."""
        return self.respond(request)

    def shared_with(self, request: Request) -> str | None:
        """Return None: pages have nothing to read here."""
        return None


async def serve_management(
    site: AccessSite,
    settings: Settings,
    listeners: Sequence[trio.SocketListener],
    connections: trio.Nursery,
    closing: trio.Event,
) -> None:
    """Task: answer on `listeners` until cancelled. From `closing` on a connection ends with its response."""
    bound = bound_addresses(listeners)
    url = page_urls(bound[0], listeners[0].socket.getsockname()[1], secure=False)[0]
    log.info("%s are also at %s (runtime.management)", ", ".join(WATCHED), url)
    management = ManagementSite(site, settings, *bound)
    await Acceptor(management, lambda: True, closing, None).run(listeners, connections)
