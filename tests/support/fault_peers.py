"""The far side of a fault: a real server process, and a client of raw bytes that can be as rude as it likes.

Everything here blocks; a test on a Trio loop calls it through `trio.to_thread`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from reactor_trio.protocol import Packet, decode_packet
from tests.support.forked_command import SOURCE, ForkedCommand

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
#: Seconds that nothing here waits longer than.
PATIENCE = 120.0

Process = subprocess.Popen[str] | ForkedCommand


class Gone(Exception):
    """The server closed the connection; `code` is that of its close frame, None if it sent none."""

    def __init__(self, code: int | None = None, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def frame(opcode: int, payload: bytes, *, masked: bool = True, fin: bool = True, rsv: int = 0) -> bytes:
    """A WebSocket frame; a mask of zeros leaves the payload as it is."""
    first, mask_bit = (fin << 7) | (rsv << 4) | opcode, masked << 7
    if len(payload) < 126:
        head = struct.pack("!BB", first, mask_bit | len(payload))
    elif len(payload) < 1 << 16:
        head = struct.pack("!BBH", first, mask_bit | 126, len(payload))
    else:
        head = struct.pack("!BBQ", first, mask_bit | 127, len(payload))
    return head + (bytes(4) if masked else b"") + payload


def opening(path: str = "/ws?video=raw", **headers: str) -> bytes:
    """The request for a WebSocket; `headers` replace or add to the usual ones (`sec_websocket_key=...`)."""
    lines = {
        "host": "127.0.0.1", "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
    } | {name.replace("_", "-"): value for name, value in headers.items()}  # fmt: skip
    return "\r\n".join([f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]).encode()


class RawClient:
    """A WebSocket client on a bare socket. Reads raise Gone at the end of the connection, TimeoutError if none comes.

    It answers pings only if `pongs` is set, and then only while it reads. `source` is the address that it comes from.
    """

    def __init__(
        self, port: int, path: str = "/ws?video=raw", *, upgrade: bool = True, pongs: bool = False,
        host: str = "127.0.0.1", source: str | None = None,
    ) -> None:  # fmt: skip
        self.pongs = pongs
        address = None if source is None else (source, 0)
        self.socket = socket.create_connection((host, port), timeout=PATIENCE, source_address=address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        if upgrade:
            self.socket.sendall(opening(path))
            status, _, body = self.response(body=False)
            assert status == 101, (status, body)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    # ---- out

    def send(self, *parts: bytes) -> None:
        """Bytes as they are."""
        self.socket.sendall(b"".join(parts))

    def say(self, type_: str, id_: int | None = None, /, **data: Any) -> None:
        """A command."""
        message = {"type": type_, "data": data} | ({} if id_ is None else {"id": id_})
        self.send(frame(TEXT, json.dumps(message).encode()))

    def vanish(self) -> None:
        """Reset the connection: the server gets no goodbye, and what was under way is lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # ---- in

    def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                raise Gone
            self._buffer += data

    def _take(self, size: int) -> bytes:
        self._fill(size)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def response(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """An HTTP answer: status, headers and, until the end of the connection, its body."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._fill(len(self._buffer) + 1)
        first, *rest = self._take(end + 4).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        return int(first.split()[1]), headers, self.rest() if body else b""

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        try:
            while True:
                self._fill(len(self._buffer) + 1)
        except Gone:
            return self._take(len(self._buffer))

    def next_frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame. Raises Gone with its code for a close frame."""
        first, length = self._take(2)
        if length >= 126:
            length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
        payload = self._take(length)
        if first & 15 == CLOSE:
            raise Gone(int.from_bytes(payload[:2], "big") if payload else None, payload[2:].decode())
        if first & 15 == PING and self.pongs:
            with suppress(ConnectionError):  # reading will say so
                self.send(frame(PONG, payload))
        return first & 15, payload

    def texts(self) -> Iterator[dict[str, Any]]:
        """The text messages from here on, everything else left out."""
        while True:
            opcode, payload = self.next_frame()
            if opcode == TEXT:
                yield json.loads(payload)

    def text(self, type_: str) -> dict[str, Any]:
        """The next text message of a type."""
        return next(message for message in self.texts() if message["type"] == type_)

    def picture(self) -> Packet:
        """The next packet."""
        while True:
            opcode, payload = self.next_frame()
            if opcode == BINARY:
                return decode_packet(payload)

    def answer(self, id_: int) -> dict[str, Any]:
        """The answer to the command with this id."""
        return next(message for message in self.texts() if message.get("id") == id_)

    def gone(self) -> Gone:
        """Read until the connection is over, and say how."""
        try:
            while True:
                self.next_frame()
        except Gone as gone:
            return gone


def ask(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes, read one HTTP answer until the connection ends."""
    with RawClient(port, upgrade=False) as client:
        client.send(request)
        return client.response()


def health(port: int) -> tuple[int, dict[str, Any]]:
    """Status and body of /health."""
    status, _, body = ask(port, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    return status, json.loads(body)


@dataclass
class ReactorProcess:
    """`reactor run` as a process of its own."""

    process: Process
    log_path: Path
    port: int = 0

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self.log_path.read_text()

    def wait_ready(self) -> None:
        """Until it has printed its URL. Raises AssertionError with its log if it ends first."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if " is ready: " in line:
                self.port = int(line.rstrip().rstrip("/").rpartition(":")[2])
                return
        raise AssertionError(f"it ended before it was ready: {self.log}")

    def wait_log(self, pattern: str) -> str:
        """Until its log matches; the match."""
        until = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.log, re.DOTALL)) is None:
            assert time.monotonic() < until, self.log
            assert self.process.poll() is None, self.log
            select.select([], [], [], 0.01)  # a file tells nobody when it grows
        return found[0]

    # ---- what the system knows of it

    def descriptors(self) -> list[str]:
        """What its open descriptors are."""
        folder, names = f"/proc/{self.process.pid}/fd", []
        for name in os.listdir(folder):
            try:
                names.append(re.sub(r"[0-9]+", "N", os.readlink(f"{folder}/{name}")))
            except FileNotFoundError:
                continue
        return sorted(names)

    def threads(self) -> int:
        """How many threads it has."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self) -> int:
        """Its resident set in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _started(words: list[str], prefix: Sequence[str], folder: Path, stderr: IO[str]) -> Process:
    if not prefix:
        return ForkedCommand(words, cwd=folder, stderr=stderr)
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "reactor_trio", *words], env=os.environ | {"PYTHONPATH": SOURCE}, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
    )  # fmt: skip


@contextmanager
def reactor_run(
    folder: Path, model: str, *arguments: str, ready: bool = True, prefix: Sequence[str] = (), **runtime: Any
) -> Iterator[ReactorProcess]:
    """Serve the source `model`, whose class is `Model`, from `folder` until the block ends; then it is killed.

    `runtime` is the section of that name in `reactor.yaml`. Unless `ready`, the block starts before the model is loaded.
    `prefix` is a command that runs the server's, in its own process. Clients here answer no pings, and a machine may be
    slow: unless a test says otherwise neither costs anybody a connection.
    """
    runtime = {"watchdog": PATIENCE} | runtime | {"limits": {"silence": PATIENCE} | runtime.get("limits", {})}
    (folder / "model.py").write_text(model)
    (folder / "reactor.yaml").write_text(json.dumps({"model": "model:Model", "name": "faulty", "runtime": runtime}))
    log = folder / "log"
    words = ["run", "--path", str(folder), *(arguments or ("--port", "0"))]
    if "--json-logs" not in arguments:
        words.append("--no-json-logs")
    with log.open("w") as stderr, _started(words, prefix, folder, stderr) as process:
        try:
            server = ReactorProcess(process, log)
            if ready:
                server.wait_ready()
            yield server
        except BaseException:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)  # it may be about to say why it goes
            if process.poll() is None:
                process.send_signal(signal.SIGABRT)  # where each of its threads is goes to the log
            print(f"the server ended with {process.wait(PATIENCE)}; its log ends so:\n{log.read_text()[-8000:]}")
            raise
        finally:
            if process.poll() is None:
                process.kill()
