"""`GateServer`: the gate in a Serve replica of its own. Its sockets are on a Trio thread, its leases on Serve's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import trio

from reactor_trio.gate.serve_gate import Gate, serve_gate
from reactor_trio.replicas.loopback import listen_on_loopback
from reactor_trio.replicas.node_address import listen, log_to_stderr
from reactor_trio.replicas.options import manifest_of, parse_options
from reactor_trio.replicas.removal_notice import wait_for_notice
from reactor_trio.replicas.serve_lessor import ServeLessor
from reactor_trio.server.watchdog import Watchdog, end_process

#: If the gate's loop does not run for this many seconds, the process ends itself.
WATCHDOG = 5.0


class GateServer:
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
        settings = manifest_of(options, port=options.gate_port, host=options.gate_host).settings
        lessor = ServeLessor(replicas, asyncio.get_running_loop())
        self._end_expected = True  # an error before the gate serves is raised here, and must not end the process
        self._queue = settings.queue
        self._drain = trio.Event()
        started: Future[Gate] = Future()

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Watchdog(WATCHDOG).run)
                # In an update the next gate listens before this one ends.
                listener = listen(settings.host, settings.port, shared=True)
                gate: Gate = await nursery.start(
                    lambda task_status: serve_gate(
                        lessor, settings, schema=schema, most=self._queue, listeners=[listener], drain=self._drain,
                        task_status=task_status,
                    )
                )  # fmt: skip
                self._token = trio.lowlevel.current_trio_token()
                self._end_expected = False
                started.set_result(gate)
                await self._drain.wait()
                nursery.cancel_scope.deadline = trio.current_time() + 2 * settings.drain_grace

        def run() -> None:
            ended: BaseException | None = None
            try:
                trio.run(main)
            except BaseException as error:
                ended = error
                if not started.done():
                    started.set_exception(error)
            if not self._end_expected:
                end_process(f"the gate has ended: {ended!r}")

        threading.Thread(target=run, name="reactor-gate", daemon=True).start()
        self._gate = await asyncio.wrap_future(started)
        self._notice = asyncio.create_task(self._drain_on_notice())

    def reconfigure(self, config: Mapping[str, int]) -> None:
        """Set the queue's limit to `places`, the slots of all replicas together, plus the manifest's `queue`."""
        self._token.run_sync_soon(self._gate.allocation.resize, config["places"] + self._queue)

    async def _drain_on_notice(self) -> None:
        await wait_for_notice()
        self._end_expected = True
        self._token.run_sync_soon(self._drain.set)

    def address(self) -> tuple[str, int]:
        """Return the host and port at which the gate listens."""
        return self._gate.host, self._gate.port
