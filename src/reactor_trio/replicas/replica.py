"""`Replica`: a server of the model in a Ray Serve replica. `HostedServer`: its part that the gate's replica has, too.

    Serve's asyncio loop                      the server's own thread, Trio
    lease()    one call for each session  ->  Leases.grant
               its messages               <-  Granted, Claimed, Beat, Ended
    notice     Serve will stop us         ->  drain

No frame passes through Ray: clients connect to the server's own port. A call of `lease` lasts until its session ends, so
Serve's count of calls is the number of sessions, and Serve scales and drains by it. When a gate is lost, Serve stops
counting its sessions. The server still counts them, and lets them end before the process does (`__del__`). If the server
ends for any reason, or its loop hangs, the process ends (exit code 70), and Serve starts another replica.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import trio
from msgspec.structs import replace

from reactor_trio.configuration.manifest import Manifest
from reactor_trio.errors import ReactorError
from reactor_trio.leases.leased_settings import leased_settings
from reactor_trio.leases.messages import Ended, Granted, LeaseMessage, Unavailable, encode
from reactor_trio.replicas.asyncio_bridge import ThreadsafeQueue
from reactor_trio.replicas.loopback import listen_on_loopback
from reactor_trio.replicas.node_address import listen, log_to_stderr, own_address, own_name
from reactor_trio.replicas.options import Options, manifest_of, parse_options
from reactor_trio.replicas.removal_notice import wait_for_notice
from reactor_trio.server.lock_watch import LOAD, POSSIBLE, LockWatch, limits, running
from reactor_trio.server.runtime_host import ServerThread
from reactor_trio.server.serve import Serving, serve
from reactor_trio.server.watchdog import Watchdog, end_process

#: If the loop of a server or gate does not run for this many seconds, the process ends itself. The manifest may set less.
WATCHDOG = 5.0

T = TypeVar("T")


class HostedServer(Generic[T]):
    """A server or a gate on a thread of its own in a Serve replica. It drains when Serve is about to stop the replica."""

    _host: ServerThread[T]
    _end_expected = True  # an error before the server serves is raised by `_begin`, and must not end the process

    async def _begin(self) -> None:
        await asyncio.to_thread(self._host.launch)
        self._end_expected = False
        self._notice = asyncio.create_task(self._drain_on_notice())

    async def _drain_on_notice(self) -> None:
        await wait_for_notice()
        self._end_expected = True
        with suppress(trio.RunFinishedError):
            self._host.drain()

    def _ended(self, why: str) -> None:
        if not self._end_expected:
            end_process(why)

    async def __del__(self) -> None:
        """Drain, and return when that is over. Serve awaits this before it ends the process.

        Serve's own count of calls does not suffice. When a gate is lost, Serve stops counting the sessions of a server
        although they go on. And a gate has no calls, so Serve would end it half a second after it begins to stop it,
        whatever it has promised.
        """
        if hasattr(self, "_host"):
            self._end_expected = True
            await asyncio.to_thread(self._host.stop)


class Replica(HostedServer[Serving]):
    """One server. Serve makes it, and calls its methods on Serve's asyncio loop."""

    async def __init__(self, values: Mapping[str, Any]) -> None:  # type: ignore[misc]
        log_to_stderr()
        listen_on_loopback()
        options = parse_options(values)
        self._address = own_address(options.host)
        manifest, self._key = _leased(manifest_of(options), self._address)
        self._claim_within = manifest.settings.claim_within
        seconds = limits(manifest.settings)
        watchdog = Watchdog(
            min(manifest.settings.watchdog or WATCHDOG, WATCHDOG),
            open_lock_watch=lambda: LockWatch(seconds) if POSSIBLE else None, running=self._running,
        )  # fmt: skip
        self._host = ServerThread(
            partial(serve, manifest, listeners=[_listen(options)]),
            lambda error: self._ended(f"the server in this replica has ended: {error or 'without a reason'}"),
            [watchdog.run],
        )
        await self._begin()

    async def lease(self, session_id: str) -> AsyncIterator[bytes]:
        """Reserve a slot and yield its lease's messages (`leases.messages`) as JSON, until the slot is free."""
        messages: ThreadsafeQueue[LeaseMessage | Unavailable] = ThreadsafeQueue()
        self._host.post(self._grant, session_id, messages.put)
        try:
            async for message in messages:
                yield encode(message)
                if isinstance(message, Ended | Unavailable):
                    return
        except (asyncio.CancelledError, GeneratorExit):
            with suppress(trio.RunFinishedError):
                self._host.post(lambda: self._host.serving.runtime.leases.cancel(session_id))  # unless the client has come
            async for message in messages:
                if isinstance(message, Ended | Unavailable):
                    break
            raise

    def _running(self) -> int:
        try:
            return running(self._host.serving.runtime.facts)
        except ReactorError:  # it has not been started yet
            return LOAD

    # ---- on the server's loop ------------------------------------------------------------------------------------------

    def _grant(self, session_id: str, put: Callable[[LeaseMessage | Unavailable], None]) -> None:
        url = self._host.serving.session_url(self._address)
        granted = Granted(session_id, url, self._key, self._claim_within, own_name())
        self._host.serving.runtime.leases.grant(granted, put)

def _leased(manifest: Manifest, address: str) -> tuple[Manifest, str]:
    """Return the manifest for a server behind a gate, which also answers for `address`, and the key of its tickets."""
    settings, key = leased_settings(manifest.settings)
    return dataclasses.replace(manifest, settings=replace(settings, hosts=(*settings.hosts, address))), key


def _listen(options: Options) -> trio.SocketListener:
    """Return a listener at the first free port of the range. Raises OSError."""
    failure: OSError | None = None
    for port in options.port_range:
        try:
            return listen(options.host, port)
        except OSError as error:
            failure = error
    ports = "no port" if options.ports is None else f"no port of {options.ports}"
    raise OSError(f"{ports} is free at {options.host}: {failure}") from failure
