"""The systems that are compared: how each is started, and when it is ready."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compare.environments import FASTRTC, OURS, OURS_BASE, PEER, environment_of
from benchmarks.peers import free_port
from benchmarks.startup import http_probe, started, websocket_probe

HERE = Path(__file__).parent
SERVERS = HERE / "servers"
STUN_PORT = 3478


@dataclass(frozen=True)
class Workload:
    """What the body does.

    Attributes:
        rate: frames a second that its steps are as long as; 0: as fast as it can draw.
        fps: what the author declares; None: nothing.
        codec: for those of ours; the peers choose by themselves.
    """

    name: str
    width: int
    height: int
    batch: int = 1
    rate: float = 30
    fps: float | None = None
    codec: str = "h264"

    def environment(self) -> dict[str, str]:
        """For the server's process and the client's."""
        given = {"WIDTH": self.width, "HEIGHT": self.height, "BATCH": self.batch, "RATE": self.rate, "CODEC": self.codec}
        if self.fps is not None:
            given["FPS"] = self.fps
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        return inherited | {f"BENCH_{key}": str(value) for key, value in given.items()}


@dataclass(frozen=True)
class System:
    """A server with its own client.

    Attributes:
        environment: which of `environments`.
        command: its arguments after the interpreter, given a port.
        client: module in `clients/`.
        ready: whether the server at a port takes sessions.
        accepts: whether it just took one, which is then let go.
        folder: where its process runs.
    """

    name: str
    environment: str
    command: Callable[[int], list[str]]
    client: str
    ready: Callable[[int], bool]
    accepts: Callable[[int], bool]
    folder: Path = HERE
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """Its interpreter, whose environment is made if need be."""
        return environment_of(self.environment)


@dataclass
class Server:
    """A running one."""

    system: System
    process: subprocess.Popen[bytes]
    port: int
    #: seconds from its start until it was ready
    start: float
    log: Path

    @property
    def url(self) -> str:
        """What its client is given."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serve(system: System, workload: Workload, ready: Callable[[int], bool] | None = None) -> Iterator[Server]:
    """A server until the block ends, which begins when it is `ready`, by default as the system says. Raises as `started`."""
    port, probe = free_port(), ready or system.ready
    variables = workload.environment() | system.variables | {"HOST": "127.0.0.1", "PORT": str(port)}
    command = [str(system.python), *system.command(port)]
    with started(command, env=variables, cwd=system.folder, probe=lambda: probe(port)) as running:
        yield Server(system, running.process, port, running.seconds, running.log)


def play(server: Server, workload: Workload, *options: str, limit: float = 180) -> dict[str, Any]:
    """A session of the system's own client: what `session.py` printed. Raises RuntimeError with what it said instead."""
    with watching(server, workload, *options) as client:
        out, errors = client.communicate(timeout=limit)
    try:
        return dict(json.loads(out.splitlines()[-1]))
    except (IndexError, ValueError):
        raise RuntimeError(f"{server.system.name}: the client failed: {errors[-2000:]}") from None


@contextmanager
def watching(server: Server, workload: Workload, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A client process, killed when the block ends."""
    command = [
        str(server.system.python), str(HERE / "session.py"), server.system.client, server.url,
        "--pid", str(server.process.pid), *options,
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=workload.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


# ---- when each is ready ----------------------------------------------------------------------------------------------


def _says(wanted: str) -> Callable[[int], bool]:
    """`/health` answers with these words in it."""

    def ready(port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return wanted in answer.read().decode()
        except OSError:
            return False

    return ready


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _starts_session(port: int) -> bool:
    """The peer's way; a session that no client joins is stopped again."""
    if not http_probe(port, _post("/start_session")):
        return False
    http_probe(port, _post("/stop_session"))
    return True


def _post(path: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        "connection: close\r\n\r\n{}"
    ).encode()


# ---- what the peer needs besides -------------------------------------------------------------------------------------


class Stun(threading.Thread):
    """Answers STUN binding requests (RFC 5389), so that the peer's ICE does not wait 3 s for a server on the internet."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", STUN_PORT))

    def run(self) -> None:
        """Until the process ends."""
        while True:
            request, (host, port) = self._socket.recvfrom(2048)
            if len(request) < 20 or request[:2] != b"\x00\x01":
                continue
            cookie = int.from_bytes(request[4:8], "big")
            address = struct.unpack("!I", socket.inet_aton(host))[0] ^ cookie
            mapped = struct.pack("!HHBBHI", 0x0020, 8, 0, 1, port ^ (cookie >> 16), address)
            self._socket.sendto(b"\x01\x01" + struct.pack("!H", len(mapped)) + request[4:20] + mapped, (host, port))


def answer_stun() -> None:
    """From now on; whoever has the port answers already."""
    try:
        Stun().start()
    except OSError:
        return


# ---- the systems -----------------------------------------------------------------------------------------------------

TRIO = System(
    "reactor-trio", OURS, lambda port: ["-m", "reactor_trio", "run", "--port", str(port)],
    "reactor_trio", _says('"ready"'), websocket_probe, SERVERS / "reactor_trio",
)  # fmt: skip
TRIO_BASE = System("reactor-trio, base", OURS_BASE, TRIO.command, "reactor_trio", TRIO.ready, TRIO.accepts, TRIO.folder)
RUNTIME = System(
    "reactor-runtime", PEER, lambda _port: ["-m", "reactor_runtime.serve"],
    "reactor_runtime", _says('"available"'), _starts_session, SERVERS / "reactor_runtime",
    {"STUN_SERVERS": f"stun:127.0.0.1:{STUN_PORT}"},
)  # fmt: skip
FLOOR = System(
    "floor", OURS, lambda port: [str(SERVERS / "floor.py"), str(port)], "reactor_trio", _listens, _listens,
)  # fmt: skip
WRITES = System(
    "bare writes", OURS, lambda port: [str(SERVERS / "floor.py"), str(port), "--replay"], "reactor_trio", _listens, _listens,
)  # fmt: skip
FAST_RTC = System(
    "fastrtc", FASTRTC, lambda port: [str(SERVERS / "fastrtc_server.py"), str(port)], "fastrtc", _listens, _listens,
)  # fmt: skip
FAST_RTC_THREAD = System(
    "fastrtc, its own thread", FASTRTC, lambda port: [*FAST_RTC.command(port), "--thread"], "fastrtc", _listens, _listens,
)  # fmt: skip
