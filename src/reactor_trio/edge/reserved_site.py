"""`ReservedSite`: what a site is for a connection in a reserved slot."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import replace

from reactor_trio.edge.address_limits import Addresses
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.edge.reserved_slots import ReservedSlot, ReservedSlots, ReservedUse
from reactor_trio.transport import Limits, Request, Response, Site
from reactor_trio.transport.upgrade import wants_websocket

#: Seconds in which a connection in a reserved slot must have sent a whole request.
FIRST_REQUEST = 2.0


class PortSite(Site, Protocol):
    """A site with a port of its own; `RequestPolicy` has these."""

    most_connections: int
    addresses: Addresses
    metrics: RequestMetrics

    def reserved_use(self, request: Request) -> ReservedUse | None:
        """Return what a request is good for on a connection above `most_connections`; None: it is refused."""


class ReservedSite:
    """What `site` is for a connection in a reserved slot; a `transport.Site`.

    Args:
        why_not: the text for a request that is not good for the slot.
    """

    def __init__(self, site: PortSite, slots: ReservedSlots, slot: ReservedSlot, why_not: str) -> None:
        self._site = site
        self._slots = slots
        self._slot = slot
        self._why_not = why_not

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)

    @property
    def limits(self) -> Limits:
        """Those of the site, with less time for the first request."""
        limits = self._site.limits
        return limits if self._slot.use is not None else replace(limits, handshake=min(FIRST_REQUEST, limits.handshake))

    def over_limit(self, request: Request) -> Response | None:
        """See `Site`. Refuses a request that is not good for the slot, and counts it as any other."""
        self._slot.heard = True
        self._slot.use = use = self._site.reserved_use(request)
        if use == "owner":
            self._slots.release(self._slot)
        too_many = self._site.over_limit(request)
        if use is not None or too_many is not None:
            return too_many
        if wants_websocket(request) and (too_many := self._site.addresses.refusal(request)) is not None:
            return too_many
        self._site.addresses.refuse("connections", request.peer, self._site.most_connections)
        return Response.refusing("connections", self._why_not, {"retry-after": "1"})

    def respond(self, request: Request) -> Response:
        """See `Site`. The slot may go to another connection from now on."""
        self._slot.answered = True
        return self._site.respond(request)
