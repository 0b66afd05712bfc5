"""The site of a server without a model: the page, and 503 with the reason on all other routes of a server.

`reactor run --reload` keeps the port while the code does not load. The page polls `/health` and shows the reason; programs
get 503 and `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import trio
from msgspec import UNSET

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.acceptor import Acceptor, bound_addresses
from reactor_trio.edge.access import Access
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.common_responses import Health, health_response, not_ready
from reactor_trio.edge.common_routes import page_routes
from reactor_trio.edge.grants import Grant
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.edge.site import Site
from reactor_trio.errors import ManifestError
from reactor_trio.server.server_routes import Handlers, server_routes
from reactor_trio.transport import Exchange, Refusal, Refused, Response


def standby_site(settings: Settings, name: str, reason: str, *bound: str) -> Site:
    """What stands in for a server whose model `name` does not load, for this reason."""
    protected = settings.auth is not None
    shown = "see the server's log" if protected else reason

    async def health(_exchange: Exchange, grant: Grant) -> Response:
        model = UNSET if protected else name
        nothing = Health(status="failed", phase="failed", model=model, sessions=0, waiting=0, clients=0, reason=shown)
        return health_response(nothing, grant)

    async def ready(_exchange: Exchange, _grant: Grant) -> Response:
        return not_ready("failed", shown)

    async def failed(_exchange: Exchange, _grant: Grant) -> Response:
        raise Refused(Refusal("failed", f"no model is served: {shown}"))

    page = page_routes(settings.frame_ancestors)
    known = server_routes(page, Handlers(health, ready, *[failed] * 6))
    routes = [replace(route, credentials=(), required=False) for route in known]  # no client has a secret of this server yet
    addresses = AddressLimits(settings.limits, settings.proxies)
    return Site(settings, routes, Access(None, name), RequestMetrics(), addresses, *bound)


async def serve_standby(listeners: Sequence[trio.SocketListener], settings: Settings, name: str, reason: str) -> None:
    """Answer on `listeners` until cancelled, and then what has begun. They stay open for the next server."""
    try:
        certificates = await Certificates.read(settings.tls)
    except ManifestError:  # without certificates no TLS client can get an answer
        await trio.sleep_forever()
    site = standby_site(settings, name, reason, *bound_addresses(listeners))
    acceptor = Acceptor(site, trio.Event(), certificates)
    async with trio.open_nursery() as nursery:
        connections = await nursery.start(_shielded_connections)
        try:
            # An acceptor closes what it serves.
            await acceptor.run([trio.SocketListener(listener.socket.dup()) for listener in listeners], connections)
        finally:
            acceptor.closing.set()
            with trio.CancelScope(shield=True):
                await acceptor.finish(trio.current_time() + settings.drain_grace)
            connections.cancel_scope.cancel()


async def _shielded_connections(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Task: a nursery whose connections go on when this task is cancelled, until the nursery is."""
    # Else a task of a nursery that is cancelled stays with `nursery.start`, which waits for the shielded one for ever.
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()
