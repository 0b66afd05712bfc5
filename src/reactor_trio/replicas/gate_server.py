"""`GateServer`: the gate in a Serve replica of its own. Its sockets are on a Trio thread, its leases on Serve's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from reactor_trio.gate.serve_gate import Gate, serve_gate
from reactor_trio.replicas.loopback import listen_on_loopback
from reactor_trio.replicas.node_address import listen, log_to_stderr
from reactor_trio.replicas.options import manifest_of, parse_options
from reactor_trio.replicas.replica import WATCHDOG, HostedServer
from reactor_trio.replicas.serve_lessor import ServeLessor
from reactor_trio.server.runtime_host import ServerThread
from reactor_trio.server.watchdog import Watchdog


class GateServer(HostedServer[Gate]):
    """The gate of one application. Serve makes it, and replaces it after a failure; sessions are not affected.

    Args:
        values: the application's options.
        schema: the model's schema.
        replicas: the handle of the deployment that grants leases.
    """

    async def __init__(self, values: Mapping[str, Any], schema: dict[str, Any], replicas: Any) -> None:  # type: ignore[misc]
        log_to_stderr()
        listen_on_loopback()
        options = parse_options(values)
        manifest = manifest_of(options, port=options.gate_port, host=options.gate_host)
        settings = manifest.settings
        lessor = ServeLessor(replicas, asyncio.get_running_loop())
        self._queue = settings.queue
        # In an update the next gate listens before this one ends.
        listener = listen(settings.host, settings.port, shared=True)
        self._host = ServerThread(
            partial(
                serve_gate, lessor, settings, schema=schema, most=self._queue, pictures=manifest.introduction.pictures,
                listeners=[listener],
            ),
            lambda error: self._ended(f"the gate has ended: {error!r}"),
            [Watchdog(WATCHDOG).run],
        )
        await self._begin()

    def reconfigure(self, config: Mapping[str, int]) -> None:
        """Set the queue's limit to `places`, the slots of all replicas together, plus the manifest's `queue`."""
        self._host.post(self._host.serving.allocation.resize, config["places"] + self._queue)

    def address(self) -> tuple[str, int]:
        """Return the host and port at which the gate listens."""
        return self._host.serving.host, self._host.serving.port
