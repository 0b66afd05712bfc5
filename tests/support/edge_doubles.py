"""HAProxy with the printed configuration in front of real servers, and clients that speak raw HTTP or a WebSocket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import trustme
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_websocket

from reactor_trio import RuntimeHost
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.deployment import Choices, edge_config
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.interface import ReactorPipeline, UploadedFile, event
from tests.support.models import Picture

HAPROXY = shutil.which("haproxy") or ("/usr/sbin/haproxy" if Path("/usr/sbin/haproxy").exists() else None)
KEY = "k" * 40
PATIENCE = 120.0
REQUEST_TIME = "timeout http-request 10s"  # what the printed configuration gives a client for a request


class Model(ReactorPipeline):
    output: Picture
    fps = 30

    @event
    def show(self, file: UploadedFile) -> int:
        return file.size

    def inference(self):
        while True:
            yield np.zeros((16, 16, 3), np.uint8)


def replica(name: str, **settings) -> RuntimeHost:
    """A server that requires tickets, as replicas do, behind the edge."""
    auth = AuthSettings(ticket_keys=(KEY,))
    given = {"port": 0, "auth": auth, "resume_window": 60.0, "proxies": ("127.0.0.0/8",), "hosts": ("play.example.org",)}
    return RuntimeHost(Model, name=name, settings=Settings(**given | settings))


def ticket(**claims) -> str:
    return issue_ticket(KEY, **claims)


class Edge:
    """A running HAProxy.

    Attributes:
        port: where it takes clients, by TLS.
        own: where it tells of itself.
        log: what it has written.
    """

    def __init__(self, process: subprocess.Popen, port: int, own: int, trust: ssl.SSLContext, log: Path) -> None:
        self.process = process
        self.port = port
        self.own = own
        self.trust = trust
        self._log = log

    def log(self) -> str:
        return self._log.read_text()

    def dial(self) -> ssl.SSLSocket:
        """A connection to it."""
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return self.trust.wrap_socket(plain, server_hostname="play.example.org")

    def ask(self, path: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, str]:
        """Status and body of one request."""
        with self.dial() as stream:
            return ask(stream, path, method=method, body=body, **headers)

    def session(self, port: int, query: str = "", *, address: str = "127.0.0.1", **headers: str) -> ClientConnection:
        """A WebSocket to a replica behind it."""
        return connect_websocket(
            f"wss://play.example.org/r/{address}/{port}/ws?video=raw{query}", sock=self.dial_plain(), ssl=self.trust,
            server_hostname="play.example.org", additional_headers=headers, open_timeout=PATIENCE, max_size=None,
            compression=None,
        )  # fmt: skip

    def metric(self, name: str) -> float:
        """One of its own figures."""
        with socket.create_connection(("127.0.0.1", self.own), PATIENCE) as stream:
            stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: stream.recv(65536), b"")).decode()
        (value,) = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(value)

    def dial_plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)


def ask(stream: socket.socket, path: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, str]:
    """Send one request on a connection that may be kept. Returns status and body."""
    fields = {"Host": "play.example.org"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        fields["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    stream.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return answer(stream)


def answer(stream: socket.socket) -> tuple[int, str]:
    """Return status and body of the next answer; (0, "") without one."""
    received = b""
    while b"\r\n\r\n" not in received:
        if not (data := stream.recv(65536)):
            return 0, ""
        received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    lengths = [int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")]
    while len(rest) < sum(lengths):
        if not (data := stream.recv(65536)):
            break
        rest += data
    return int(lines[0].split()[1]), rest.decode("utf-8", "replace")


def told(session: ClientConnection, kind: str) -> dict:
    """Return the data of the next message of this type."""
    while True:
        message = session.recv(timeout=PATIENCE)
        if isinstance(message, str):
            text = json.loads(message)
            assert text["type"] not in ("reactor.error", "reactor.bye"), text
            if text["type"] == kind:
                return text["data"]


def frames(session: ClientConnection, number: int) -> int:
    """Read this many frames."""
    seen = 0
    while seen < number:
        seen += isinstance(session.recv(timeout=PATIENCE), bytes)
    return seen


@contextmanager
def edge(folder: Path, choices: Choices, *, gate: str) -> Iterator[Edge]:
    """Run HAProxy with the configuration that `reactor deploy --print edge` prints, on ports that are open already."""
    authority = trustme.CA()
    certificate = authority.issue_cert("play.example.org")
    pem = folder / "edge.pem"
    # As the mounted Secret of the manifest: the chain, and the key beside it.
    pem.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "edge.pem.key").write_bytes(certificate.private_key_pem.bytes())
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with socket.create_server(("127.0.0.1", 0)) as clients, socket.create_server(("127.0.0.1", 0)) as own:
        ports = clients.getsockname()[1], own.getsockname()[1]
        config = folder / "edge.cfg"
        text = edge_config(
            choices, gate=gate, listen=f"fd@{clients.fileno()}", own=f"fd@{own.fileno()}", certificate=str(pem),
            connections=200,
        )  # fmt: skip
        # The limit counts while the test's own process, with its servers, waits for a processor. No test here is about it.
        assert REQUEST_TIME in text
        config.write_text(text.replace(REQUEST_TIME, f"timeout http-request {PATIENCE:g}s"))
        log = folder / "edge.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [HAPROXY or "haproxy", "-db", "-f", str(config)], pass_fds=(clients.fileno(), own.fileno()),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=dict(os.environ),
            )  # fmt: skip
    with process:
        try:
            yield Edge(process, *ports, trust, log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            print(log.read_text()[-4000:])
