"""Processes and sockets that the benchmarks share with the tests of faults."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.cycling import cycle
from tests.support.fault_peers import (
    PONG,
    SOURCE,
    Gone,
    RawClient,
    ReactorProcess,
    ask,
    frame,
    health,
    opening,
    reactor_run,
)
from tests.support.free_port import free_port
from tests.support.replica_kit import Application, descendants, running, title

ROOT = Path(__file__).parents[1]

__all__ = [
    "PONG", "ROOT", "SOURCE", "Application", "Gone", "RawClient", "ReactorProcess", "ask", "bare_server", "cpu_seconds",
    "cycle", "descendants", "environment", "frame", "free_port", "health", "open_websocket", "opening", "reactor_run",
    "running", "thread_seconds", "title",
]  # fmt: skip


def environment() -> dict[str, str]:
    """For a child process that runs a module of this package."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)])}


def open_websocket(port: int, path: str) -> socket.socket:
    """A socket to 127.0.0.1 on which a WebSocket has begun and nothing was read beyond the answer."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    opened.sendall(opening(path))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += opened.recv(1)
    assert b" 101 " in head, head
    return opened


@contextmanager
def bare_server(module: str) -> Iterator[tuple[int, int]]:
    """A process that runs `serve_bare()` of `module`, which prints its port; its process id and that port."""
    with subprocess.Popen(
        [sys.executable, "-c", f"from {module} import serve_bare; serve_bare()"],
        stdout=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def cpu_seconds(pid: int) -> float:
    """Processor time of a process in seconds, exact to the nanosecond, threads that have ended included.

    The number of a process's clock is made as clock_getcpuclockid(3) makes it; Python has no name for that function.
    """
    return time.clock_gettime(~pid << 3 | 2)


def thread_seconds(pid: int) -> dict[int, tuple[float, float]]:
    """By the id of each thread of a process: seconds for which it ran, and for which it was ready and had to wait."""
    times = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
        times[int(thread)] = int(ran) / 1e9, int(waited) / 1e9
    return times
