"""Connections that come to nothing: what each costs the server, and how long a good client waits behind a storm of them.

A process `reactor run` and a process that accepts each connection with Trio and closes it, in turns. One client in this
process makes the same connections to both, one after the other:

- *reset* and *closed* as soon as they are open;
- *turned away*: from an address that has all its connections. The server answers 429 and reads no request, the client reads
  to the end. It needs an address of this machine beside loopback, which has no limit;
- *refused*: asks for `/schema` where the server has all its connections. It reads the request, looks at it and answers 503.
  This row has no bar.

The bare process has no limits and closes. A cost is the processor time of the server's process over the number of
connections; the ratio is the median of the ratios of the turns.

Then a storm of resets, and `/health` as soon as the last one is made. It waits behind all that the system has queued.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

import trio

from benchmarks.peers import bare_server, reactor_run
from benchmarks.report import SPREAD, Report, spread
from benchmarks.startup import http_probe
from reactor_trio.edge.ip_addresses import is_loopback
from reactor_trio.edge.own_addresses import is_own_address, reachable_hosts

STORM = 5000
#: connections that the server may have at a time
ROOM = 8
#: of a bare accept and close; seconds
COST, WAIT = 1.5, 0.5

MODEL = """
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    def inference(self):
        while True:
            yield Idle
"""


def run(report: Report, *, quick: bool) -> None:
    """5 turns of 2000 connections of each kind, or 2 of 500; a storm after each turn."""
    turns, count = (2, 500) if quick else (5, 2000)
    bare: dict[str, list[float]] = {kind: [] for kind in KINDS}
    ours: dict[str, list[float]] = {kind: [] for kind in KINDS}
    storms: list[float] = []
    waited: list[float] = []
    for _ in range(turns):
        with bare_server(__name__) as (pid, port):
            for kind, connect in KINDS.items():
                bare[kind].append(_cost(pid, port, connect, count))
        with server() as (pid, port):
            for kind, connect in KINDS.items():
                with ExitStack() as held:
                    if kind == "turned away":
                        held.enter_context(socket.create_connection((OWN, port)))
                    if kind == "refused":
                        for _ in range(ROOM):
                            held.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(b"G")
                        _until_taken(port)
                    ours[kind].append(_cost(pid, port, partial(read, host=OWN) if kind == "turned away" else connect, count))
            began = time.monotonic()
            for _ in range(STORM):
                reset(port)
            storms.append(time.monotonic() - began)
            if not http_probe(port):
                raise RuntimeError("the server does not answer after a storm")
            waited.append(time.monotonic() - began - storms[-1])
    ratios = {kind: median(own / other for own, other in zip(ours[kind], bare[kind], strict=True)) for kind in KINDS}
    report.table(
        f"server's processor time a connection, µs, {turns} turns of {count}, load {os.getloadavg()[0]:.1f}",
        ["connection", "bare", "least", "most", "ours", "least", "most", "ratio"],
        [
            [kind, *(1e6 * f(costs[kind]) for costs in (bare, ours) for f in (median, min, max)), ratios[kind]]
            for kind in KINDS
        ],
    )
    report.table(
        f"a storm of {STORM} resets, ms", ["", *SPREAD],
        [["the storm", *spread(storms)], ["/health, from the storm's end", *spread(waited)]],
    )  # fmt: skip
    for kind, ratio in ratios.items():
        if kind != "refused":
            report.bar(f"{kind}: processor time to that of a bare accept and close", ratio, COST, "times")
    report.bar("/health after a storm of resets, most", 1000 * max(waited), 1000 * WAIT, "ms")


# ---- clients ----------------------------------------------------------------------------------------------------------


def reset(port: int) -> None:
    """Connect and reset."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def close(port: int) -> None:
    """Connect and close."""
    socket.create_connection(("127.0.0.1", port)).close()


def read(port: int, host: str = "127.0.0.1", request: bytes = b"") -> bytes:
    """Connect, send a request, and read what comes, to the end."""
    with socket.create_connection((host, port), timeout=60.0) as client, suppress(ConnectionError):
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(4096), b""))
    return b""


#: an address of this machine beside loopback; empty without one
OWN = next((host for host in reachable_hosts("0.0.0.0") if is_own_address(host) and not is_loopback(host)), "")
KINDS: dict[str, Callable[[int], object]] = {
    "reset": reset, "closed": close, **({"turned away": read} if OWN else {}),
    "refused": partial(read, request=b"GET /schema HTTP/1.1\r\nhost: localhost\r\n\r\n"),
}  # fmt: skip


def _cost(pid: int, port: int, connect: Callable[[int], object], count: int) -> float:
    """Seconds of the process a connection."""
    clock = (~pid << 3) | 2  # a process's processor time, also of threads that have ended (clock_getcpuclockid(3))
    before = time.clock_gettime(clock)
    for _ in range(count):
        connect(port)
    http_probe(port)  # whatever it answers: all that came before it has been accepted
    time.sleep(0.3)
    return (time.clock_gettime(clock) - before) / count


def _until_taken(port: int) -> None:
    """Return once the server turns newcomers away."""
    until = time.monotonic() + 30
    while not http_probe(port, b"GET /schema HTTP/1.1\r\nhost: localhost\r\n\r\n", status=503):
        if time.monotonic() > until:
            raise TimeoutError("the server turns nobody away")


# ---- servers ----------------------------------------------------------------------------------------------------------


@contextmanager
def server() -> Iterator[tuple[int, int]]:
    """`reactor run` with a model that makes nothing; its process id and port."""
    limits = {"connections": ROOM, "handshake": 600, "connections_per_address": 1}
    host = {"host": "0.0.0.0"}
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL, limits=limits, **host) as running:
        time.sleep(1.0)  # what it loads once it is ready
        yield running.process.pid, running.port


def serve_bare() -> None:
    """The child process, which accepts and closes."""
    trio.run(_serve_bare)


async def _serve_bare() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listener.socket.getsockname()[1], flush=True)
    await trio.serve_listeners(trio.SocketStream.aclose, [listener])
