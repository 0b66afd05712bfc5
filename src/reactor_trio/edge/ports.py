"""The sockets on which a server or a gate listens: that of the clients, and that of `runtime.management`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.descriptors import keep_from_children
from reactor_trio.errors import ManifestError


class Ports(NamedTuple):
    """Listening sockets; `management` is empty without the setting. Those of the clients may be Unix sockets."""

    clients: Sequence[trio.SocketListener]
    management: Sequence[trio.SocketListener]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the clients; of a Unix socket its path and 0."""
        name = self.clients[0].socket.getsockname()
        return (name[0], name[1]) if isinstance(name, tuple) else (os.fsdecode(name), 0)

    @property
    def management_port(self) -> int | None:
        """The port of `runtime.management`; None without it."""
        if not self.management:
            return None
        port: int = self.management[0].socket.getsockname()[1]
        return port


@asynccontextmanager
async def open_ports(settings: Settings, given: Sequence[trio.SocketListener] | None) -> AsyncGenerator[Ports, None]:
    """Listen during the block. Sockets that are `given` are those of the clients; they are closed in any case.

    Forked children of this process do not keep the sockets. Raises OSError if the clients' address cannot be bound,
    ManifestError if that of `runtime.management` cannot be.
    """
    opened = list(given or ())
    try:
        if not opened:
            opened += await trio.open_tcp_listeners(settings.port, host=settings.host)
        clients = list(opened)
        opened += (management := await _open_management(settings))
        for listener in opened:
            keep_from_children(listener.socket)
        yield Ports(clients, management)
    finally:
        for listener in opened:
            listener.socket.close()


async def _open_management(settings: Settings) -> list[trio.SocketListener]:
    if (management := settings.management) is None:
        return []
    try:
        listeners = await trio.open_tcp_listeners(management.port, host=management.host)
    except OSError as error:
        where = f"{management.host}:{management.port}"
        raise ManifestError(f"runtime.management: cannot listen on {where}: {error.strerror or error}") from error
    return listeners
