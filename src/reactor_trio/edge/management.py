"""The port of `runtime.management`: `/health`, `/ready` and `/metrics` on a port of their own.

Clients cannot reach that port, so whatever they do to the other one, probes and scrapes get their answer. It speaks plain
HTTP. Its answers are those of the other port, so `/metrics` takes the same token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.acceptor import Acceptor, bound_addresses
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.own_addresses import page_urls
from reactor_trio.edge.site import Site

log = logging.getLogger("reactor_trio.edge")


def management_site(site: Site, settings: Settings, *bound: str) -> Site:
    """What that port serves: the reserved routes of `site`, without a limit by the minute.

    Args:
        site: that of the other port. What is refused here counts there, and so does a credential that is not good.
        bound: addresses at which this port listens.
    """
    assert settings.management is not None
    own = msgspec.structs.replace(settings, host=settings.management.host)
    routes = [replace(route, limit=None) for route in site.router.routes if route.reserved]
    addresses = AddressLimits(settings.limits, settings.proxies)
    return Site(own, routes, site.access, site.metrics, addresses, *bound, refusals=site.refusals)


async def serve_management(
    clients: Acceptor, settings: Settings, listeners: Sequence[trio.SocketListener], connections: trio.Nursery
) -> None:
    """Task: answer on `listeners` until cancelled. The requests count as those of the port of the clients."""
    bound = bound_addresses(listeners)
    url = page_urls(bound[0], listeners[0].socket.getsockname()[1], secure=False)[0]
    management = management_site(clients.site, settings, *bound)
    log.info("%s are also at %s (runtime.management)", ", ".join(route.path for route in management.router.routes), url)
    await Acceptor(management, clients.closing, None, clients.requests).run(listeners, connections)
