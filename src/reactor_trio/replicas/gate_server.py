"""The gate in a Serve replica of its own: its sockets on a Trio thread, its leases on Serve's asyncio loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import Any

import trio

from reactor_trio.gate.serve import Gate, serve_gate
from reactor_trio.replicas.loopback import narrow
from reactor_trio.replicas.options import manifest_of, parse_options
from reactor_trio.replicas.place import log_to_stderr
from reactor_trio.replicas.serve_lessor import ServeLessor
from reactor_trio.server.watchdog import Watchdog, end_process

#: Seconds without a beat of its loop after which the gate's process ends itself.
WATCHDOG = 5.0


class GateServer:
    """The gate of one application; Serve makes it, and again if it is gone. Sessions do not notice.

    Args:
        values: the application's options.
        schema: of the model.
        most: places that there can be at all; so many clients and the manifest's `queue` more may be in its line.
        replicas: the deployment that gives leases.
    """

    async def __init__(self, values: Mapping[str, Any], schema: dict[str, Any], most: int, replicas: Any) -> None:  # type: ignore[misc]
        log_to_stderr()
        narrow()
        options = parse_options(values)
        settings = manifest_of(options, port=options.gate_port, host=options.gate_host).settings
        lessor = ServeLessor(replicas, asyncio.get_running_loop())
        started = threading.Event()
        failure: list[BaseException] = []

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Watchdog(WATCHDOG).run)
                listener = _listen(settings.host, settings.port)
                self._gate: Gate = await nursery.start(
                    lambda task_status: serve_gate(
                        lessor, settings, schema=schema, most=most + settings.queue, listeners=[listener],
                        task_status=task_status,
                    )
                )  # fmt: skip
                started.set()

        def run() -> None:
            try:
                trio.run(main)
            except BaseException as error:
                failure.append(error)
                if started.is_set():
                    end_process(f"the gate has ended: {error}")
            started.set()

        threading.Thread(target=run, name="reactor-gate", daemon=True).start()
        await asyncio.to_thread(started.wait)
        if failure:
            raise failure[0]

    def address(self) -> tuple[str, int]:
        """Host and port where it listens."""
        return self._gate.host, self._gate.port


def _listen(host: str, port: int) -> trio.SocketListener:
    """A socket that another gate of the same user may share: in an update the next one is there before this one goes."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind((host, port))
    listening.listen()
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))
