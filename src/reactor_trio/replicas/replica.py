"""A server of the model in a Ray Serve replica.

    Serve's asyncio loop                      the server's own thread, Trio
    lease()    one call for each session  ->  Leases.open
               words of it                <-  Granted, Claimed, Beat, Ended
    notice     Serve will stop us         ->  drain

No frame passes through Ray: clients come to the server's own port. A lease that is claimed is held until its session ends,
so Serve counts sessions; that is what it scales and drains by. Sessions whose gate is gone it counts no longer: the server
counts them still, and lets them end before the process does (`__del__`). Whatever ends the server ends the process (exit
code 70), and so does a watchdog if its loop hangs: Serve starts another.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from reactor_trio.admission import Refused
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.gate.lessor import Granted, Word
from reactor_trio.replicas.asyncio_bridge import Words
from reactor_trio.replicas.loopback import narrow
from reactor_trio.replicas.node_address import log_to_stderr, own_address, own_name
from reactor_trio.replicas.options import Options, manifest_of, parse_options
from reactor_trio.replicas.removal_notice import wait_for_notice
from reactor_trio.server.leases import Claimed, Ended, leased
from reactor_trio.server.runtime_host import RuntimeHost
from reactor_trio.server.watchdog import Watchdog, end_process

#: Seconds without a beat of the I/O loop after which the process ends itself, at most.
WATCHDOG = 5.0

_encode = msgspec.json.Encoder().encode


class Unavailable(msgspec.Struct, frozen=True, tag=True):
    """There is no slot after all."""

    reason: str


class Replica:
    """One server; Serve makes it and calls its methods on its asyncio loop."""

    async def __init__(self, values: Mapping[str, Any]) -> None:  # type: ignore[misc]
        log_to_stderr()
        narrow()
        options = parse_options(values)
        self._address = own_address(options.host)
        manifest, self._key = _leased(manifest_of(options), self._address)
        self._claim_within = manifest.settings.claim_within
        self._expected = True  # what goes wrong before it serves, its maker is told
        watchdog = Watchdog(min(manifest.settings.watchdog or WATCHDOG, WATCHDOG))
        self._host = RuntimeHost(manifest, listeners=[_listen(options)], ended=self._gone, beside=[watchdog.run])
        await asyncio.to_thread(self._host.start)
        self._expected = False
        self._notice = asyncio.create_task(self._drain_on_notice())

    async def lease(self, session_id: str) -> AsyncIterator[bytes]:
        """The life of a slot, from its reservation until it is free, as JSON of the words of `gate.lessor`."""
        words: Words[Word | Unavailable] = Words()
        self._host.post(self._open, session_id, words.say)
        claimed = False
        try:
            async for word in words:
                claimed = claimed or isinstance(word, Claimed)
                yield _encode(word)
                if isinstance(word, Ended | Unavailable):
                    return
        except (asyncio.CancelledError, GeneratorExit):
            if not claimed:
                self._host.post(self._cancel, session_id)
            async for word in words:
                if isinstance(word, Ended | Unavailable):
                    break
            raise

    # ---- on the server's loop ------------------------------------------------------------------------------------------

    def _open(self, session_id: str, say: Any) -> None:
        try:
            self._host.serving.runtime.leases.open(session_id, say)
        except Refused as refused:
            say(Unavailable(refused.reason))
        else:
            url = self._host.serving.session_url(self._address)
            say(Granted(session_id, url, self._key, self._claim_within, own_name()))

    def _cancel(self, session_id: str) -> None:
        self._host.serving.runtime.leases.cancel(session_id)

    def _gone(self, error: BaseException | None) -> None:
        if not self._expected:
            end_process(f"the server in this replica has ended: {error or 'without a reason'}")

    # ---- its end -------------------------------------------------------------------------------------------------------

    async def __del__(self) -> None:
        """Serve awaits this before it ends the process: return when the last session is over, or has had its time.

        Serve itself forgets sessions whose gate goes: it stops counting a call when its caller does, not when it has ended.
        """
        if hasattr(self, "_host"):
            self._expected = True
            await asyncio.to_thread(self._host.stop)

    async def _drain_on_notice(self) -> None:
        await wait_for_notice()
        self._expected = True
        with suppress(trio.RunFinishedError):
            self._host.drain()


def _leased(manifest: Manifest, address: str) -> tuple[Manifest, str]:
    """The manifest of a server whose places a gate gives away, also at its own address, and the key for its tickets."""
    settings, key = leased(manifest.settings)
    settings = replace(settings, hosts=(*settings.hosts, address))
    return Manifest(
        manifest.path, manifest.model_path, manifest.name, manifest.config, settings, manifest.weights
    ), key


def _listen(options: Options) -> trio.SocketListener:
    """A socket at the first port of the range that is free. Raises OSError."""
    failure: OSError | None = None
    for port in options.port_range:
        listening = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((options.host, port))
            listening.listen()
        except OSError as error:
            listening.close()
            failure = error
        else:
            return trio.SocketListener(trio.socket.from_stdlib_socket(listening))
    ports = "no port" if options.ports is None else f"no port of {options.ports}"
    raise OSError(f"{ports} is free at {options.host}: {failure}") from failure
