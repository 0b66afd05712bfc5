"""`serve_gate`: serves a gate on a port. For Trio programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency.loop_lag import LoopLag
from reactor_trio.configuration.introduction import Picture
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.acceptor import Acceptor, bound_addresses, warn_if_open
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.management import serve_management
from reactor_trio.edge.ports import open_ports
from reactor_trio.gate.allocation import Allocation
from reactor_trio.gate.gate_site import gate_site
from reactor_trio.leases.holder import Lessor


class Gate(msgspec.Struct, frozen=True):
    """A gate that listens at `host` and `port`."""

    host: str
    port: int
    allocation: Allocation
    certificates: Certificates | None = None


async def serve_gate(
    lessor: Lessor,
    settings: Settings,
    *,
    schema: dict[str, Any],
    most: int,
    pictures: Mapping[str, Picture] | None = None,
    listeners: Sequence[trio.SocketListener] | None = None,
    drain: trio.Event | None = None,
    task_status: trio.TaskStatus[Gate] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Give clients slots until `drain` is set, or until cancelled. While no server is up, clients wait in the queue.

    Args:
        lessor: grants leases at the servers.
        settings: the gate uses `host`, `port`, `auth`, `tls`, `limits`, `origins`, `frame_ancestors`, `hosts`, `proxies`,
            `management` and `drain_grace`.
        schema: the schema of the model, as a server answers it at `GET /schema`.
        most: the most clients that may wait.
        pictures: those of the model's introduction, by name.
        listeners: sockets that listen already, used instead of host and port. The gate closes them at its end.
        drain: set it to refuse all waiting clients and return. Sessions go on at their servers. For at most `drain_grace`
            the gate waits first for the clients that it sent to a server to come there, and for its requests to be answered.

    Raises OSError if the address cannot be bound, ManifestError if a secret or a certificate cannot be used.
    """
    drain = trio.Event() if drain is None else drain
    allocation = Allocation(lessor, most, settings.limits.waiting_per_address)
    async with open_ports(settings, listeners) as ports:
        certificates = await Certificates.read(settings.tls)
        site = gate_site(allocation, settings, schema, drain, *bound_addresses(ports.clients), pictures=pictures)
        with LoopLag().watched() as lag:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lag.tick)
                if certificates is not None:
                    nursery.start_soon(certificates.run)
                warn_if_open(ports.clients, settings)
                await nursery.start(allocation.run)
                acceptor = Acceptor(site, drain, certificates)
                nursery.start_soon(acceptor.run, ports.clients, nursery)
                if ports.management:
                    nursery.start_soon(serve_management, acceptor, settings, ports.management, nursery)
                task_status.started(Gate(*ports.address, allocation, certificates))
                await drain.wait()
                allocation.drain()
                deadline = trio.current_time() + settings.drain_grace
                with trio.move_on_at(deadline):
                    await allocation.all_claimed()
                await acceptor.finish(deadline)
                nursery.cancel_scope.cancel()
