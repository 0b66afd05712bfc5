"""The site of a server without a model: the page, and 503 with the reason at `/health` and `/ready`.

`reactor run --reload` keeps the port while the code does not load. The page polls `/health` and shows the reason; programs
get 503 and `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.acceptor import Acceptor, bound_addresses
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.common_responses import busy, json_response, not_ready, page_response
from reactor_trio.edge.request_policy import RequestPolicy
from reactor_trio.errors import ManifestError
from reactor_trio.transport import BodyTaker, Conversation, Request, Response


class StandbySite(RequestPolicy):
    """A `transport.Site` without a model."""

    def __init__(self, settings: Settings, name: str, reason: str, *bound: str) -> None:
        super().__init__(settings, *bound)
        self._name = name
        self._protected = settings.auth is not None
        self._reason = "see the server's log" if self._protected else reason

    def respond(self, request: Request) -> Response:
        """Answer with the page or the reason."""
        if (page := page_response(request, self.frame_ancestors)) is not None:
            return page
        if request.path == "/health":
            body: dict[str, Any] = {"status": "failed", "phase": "failed", "sessions": 0, "waiting": 0, "clients": 0,
                                    "reason": self._reason}  # fmt: skip
            if not self._protected:
                body["model"] = self._name
            return json_response(503, body, {"retry-after": "1"})
        if request.path == "/ready":
            return not_ready("failed", self._reason)
        return busy("failed", f"no model is served: {self._reason}")

    def take_body(self, request: Request) -> BodyTaker | None:
        """Return None: the site takes only GET and HEAD."""
        return None

    async def admit(self, request: Request) -> Response | Conversation:
        """Refuse every client."""
        return busy("failed", f"no model is served: {self._reason}")


async def serve_standby(listeners: Sequence[trio.SocketListener], settings: Settings, name: str, reason: str) -> None:
    """Answer on `listeners` until cancelled. They stay open for the next server."""
    try:
        certificates = await Certificates.read(settings.tls)
    except ManifestError:  # without certificates no TLS client can get an answer
        await trio.sleep_forever()
    site = StandbySite(settings, name, reason, *bound_addresses(listeners))
    acceptor = Acceptor(site, lambda: False, trio.Event(), certificates)
    async with trio.open_nursery() as connections:
        # An acceptor closes what it serves.
        await acceptor.run([trio.SocketListener(listener.socket.dup()) for listener in listeners], connections)
