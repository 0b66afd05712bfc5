"""An audience: what one more viewer costs, and how old the pictures of hundreds are.

A server process plays a moving, grainy picture of 640x480 in H.264 at 30 fps, and each frame says when it was made. One
client process has a bare socket for each viewer, on the same cores. Its viewers acknowledge each frame, or as seldom as the
server allows with `reactor.cadence`.

Cost: processor time of the server process for one frame to one more viewer, from the difference between two audiences. The
limit is a bare loop: a Trio process that writes one message of the same size to all sockets, one `send` each, while
trio-websocket reads the same acknowledgements, a task for each connection. Turns alternate.

Age: from the model's `yield` until the viewer's socket has given the whole frame.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import trio
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

from benchmarks.peers import bare_server, cpu_seconds, environment, open_websocket, thread_seconds
from benchmarks.pictures import clip_model
from benchmarks.report import Report, spread
from benchmarks.sessions import sessions_server
from reactor_trio.protocol import decode_packet, packet_head

FPS = 30
#: how the viewers acknowledge
WAYS = ("each frame", "as allowed")
#: seconds between two acknowledgements that the bare loop allows
CADENCE = 0.25
#: the two audiences whose difference is the cost of more viewers
FEW, MANY = 20, 100
AUDIENCES = (100, 200, 300, 500)
#: seconds of processor time for a frame to one more viewer; and to the bare loop
COST, BARE = 60e-6, 2.0
#: viewers whose pictures are at most this old (seconds, p95)
AUDIENCE, AGE = 300, 0.060
#: bytes of the bare loop's message, about those of the model's frames
SIZE = 8000
#: of how many frames of a viewer one tells its age
SAMPLED = 8

MODEL = clip_model(640, 480, FPS) + """
import time

class Model(Model):
    def inference(self):
        while True:
            for picture in self.clip:
                yield Picture(main_video=TrackPayload(picture, metadata={"made": time.monotonic()}))
"""


def run(report: Report, *, quick: bool) -> None:
    """The cost, then the ages."""
    costs(report, turns=1 if quick else 3, quick=quick)
    ages(report, AUDIENCES, quick=quick)


def turn(report: Report, *, quick: bool) -> None:
    """One turn of the cost, and the age at the largest audience that is promised (two minutes)."""
    costs(report, turns=1, quick=quick)
    ages(report, (AUDIENCE,), quick=quick)


def costs(report: Report, *, turns: int, quick: bool) -> None:
    """Turns of the runtime and of the bare loop, each with the few and with the many."""
    seconds = 1.0 if quick else 4.0
    taken: dict[tuple[str, str], list[float]] = {}
    with sessions_server(MODEL) as server, bare_server(__name__) as (bare, bare_port):
        servers = {"runtime": (server.process.pid, server.port), "bare loop": (bare, bare_port)}
        for _ in range(turns):
            for way in WAYS:
                for name, (pid, port) in servers.items():
                    few, many = (_measure(pid, port, count, way, seconds) for count in (FEW, MANY))
                    cost = (many["cpu"] - few["cpu"]) / (sum(many["frames"]) - sum(few["frames"]))
                    taken.setdefault((way, name), []).append(cost)
    cost = {key: median(values) for key, values in taken.items()}
    report.table(
        f"processor time of the server for a frame to one more viewer, us ({FEW} to {MANY} viewers, {turns} turns)",
        ["acknowledged", "runtime", "least", "most", "bare loop", "least", "most", "ratio"],
        [
            [way, *(1e6 * f(taken[way, name]) for name in ("runtime", "bare loop") for f in (median, min, max)),
             cost[way, "runtime"] / cost[way, "bare loop"]]
            for way in WAYS
        ],
    )  # fmt: skip
    report.bar("a frame to one more viewer, as allowed", 1e6 * cost["as allowed", "runtime"], 1e6 * COST, "us")
    for way in WAYS:
        report.figure(f"a frame to one more viewer, acknowledged {way}, us", 1e6 * cost[way, "runtime"])
        report.bar(f"{way}: to the bare loop", cost[way, "runtime"] / cost[way, "bare loop"], BARE, "times")


def ages(report: Report, audiences: Sequence[int], *, quick: bool) -> None:
    """Larger and larger audiences that acknowledge as the server allows."""
    seconds = 2.0 if quick else 8.0
    rows, most = [], 0
    with sessions_server(MODEL) as server:
        for count in audiences:
            seen = _measure(server.process.pid, server.port, count, "as allowed", seconds)
            mean = max(1, sum(seen["frames"])) / count
            _, p50, p95, p99, longest = spread(seen["ages"])
            rows.append([
                str(count), mean / seconds, min(seen["frames"]) / mean, p50, p95, p99, longest,
                100 * seen["main cpu"] / seconds, 100 * seen["cpu"] / seconds, 100 * seen["own cpu"] / seconds,
            ])  # fmt: skip
            if p95 <= 1000 * AGE and mean / seconds >= 0.98 * FPS:
                most = count
            if count == AUDIENCE:
                reached = p95
    report.table(
        f"age of the pictures, ms ({seconds:g} s each; clients on the same cores)",
        ["viewers", "fps each", "least share", "age p50", "p95", "p99", "max", "I/O loop %", "server %", "clients %"], rows,
    )  # fmt: skip
    report.note(f"the largest of these audiences with p95 below {1000 * AGE:g} ms and all frames: {most}")
    report.figure(f"{AUDIENCE} viewers: age p95, ms", reached)
    report.bar(f"{AUDIENCE} viewers: age p95", reached, 1000 * AGE, "ms")


def _measure(pid: int, port: int, count: int, way: str, seconds: float) -> dict[str, Any]:
    """Let `count` viewers watch, the first of them in control; what they and the server's process took."""
    with _audience(port, count, way) as audience:
        time.sleep(4.0)
        cpu, main = cpu_seconds(pid), thread_seconds(pid)[pid][0]
        audience.stdin.write(f"{seconds}\n")
        audience.stdin.flush()
        seen: dict[str, Any] = json.loads(audience.stdout.readline())
        seen["cpu"], seen["main cpu"] = cpu_seconds(pid) - cpu, thread_seconds(pid)[pid][0] - main
    time.sleep(1.0)  # the session unwinds
    assert not seen["ended"], seen["ended"]
    return seen


@contextmanager
def _audience(port: int, count: int, way: str) -> Iterator[Any]:
    with subprocess.Popen(
        [sys.executable, "-c", "from benchmarks.fanout import watch; watch()", json.dumps([port, count, way])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "connected\n"
        yield process


# ---- the client process -----------------------------------------------------------------------------------------------


class _Viewer:
    """One socket that counts its frames, acknowledges them, and takes the age of some."""

    def __init__(self, port: int, number: int, way: str) -> None:
        role = "viewer" if number else "control"
        self.socket = open_websocket(port, f"/ws?video=h264&role={role}&feedback=1&cadence=1")
        self.socket.setblocking(False)
        self.frames = 0
        self.ages: list[float] = []
        self._number, self._allowed = number, way == "as allowed"
        self._cadence = self._acknowledged = 0.0
        self._rest = b""

    def take(self, data: memoryview) -> None:
        """The next bytes of the stream."""
        if self._rest:
            data = memoryview(self._rest + data)
        while len(data) >= 2:
            short = data[1] & 127
            at = 2 if short < 126 else 4 if short == 126 else 10
            if len(data) < at:
                break
            end = at + (short if short < 126 else int.from_bytes(data[2:at], "big"))
            if len(data) < end:
                break
            if data[0] & 15 == 2:
                self._frame(data[at:end])
            elif data[0] & 15 == 1 and self._allowed:
                self._text(json.loads(bytes(data[at:end])))
            data = data[end:]
        self._rest = bytes(data)

    def _frame(self, packet: memoryview) -> None:
        seq, now = _seq(packet), time.monotonic()
        self.frames += 1
        if (seq + self._number) % SAMPLED == 0:
            self.ages.append(now - decode_packet(packet).meta["metadata"]["made"])
        if now - self._acknowledged >= self._cadence:
            self._acknowledged = now
            text = b'{"type":"reactor.feedback","data":{"track":0,"seq":%d}}' % seq
            self.socket.send(struct.pack("!BBI", 0x81, 0x80 | len(text), 0) + text)  # a mask of zeros

    def _text(self, text: dict[str, Any]) -> None:
        if text["type"] == "reactor.cadence":
            self._cadence = text["data"]["every_us"] / 1e6


def _seq(packet: memoryview) -> int:
    """The second field of a packet, an unsigned integer of MessagePack."""
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(packet[2], 0)
    return int.from_bytes(packet[3 : 3 + width], "big") if width else packet[2]


def watch() -> None:
    """The process: connect, say so, watch; count for as long as the line on stdin says, and print what was seen."""
    port, count, way = json.loads(sys.argv[1])
    buffer = memoryview(bytearray(1 << 20))
    chosen, ended = selectors.DefaultSelector(), 0
    viewers = [_Viewer(port, number, way) for number in range(count)]
    for viewer in viewers:
        chosen.register(viewer.socket, selectors.EVENT_READ, viewer)
    print("connected", flush=True)
    chosen.register(sys.stdin, selectors.EVENT_READ, None)
    until, cpu = math.inf, 0.0
    while time.monotonic() < until:
        for key, _ in chosen.select(0.1):
            if key.data is None:
                until, cpu = time.monotonic() + float(sys.stdin.readline()), time.process_time()
                chosen.unregister(sys.stdin)
                for viewer in viewers:
                    viewer.frames, viewer.ages = 0, []
            elif size := key.data.socket.recv_into(buffer):
                key.data.take(buffer[:size])
            else:
                ended += 1
                chosen.unregister(key.fileobj)
    seen = {
        "frames": [viewer.frames for viewer in viewers], "ages": [age for viewer in viewers for age in viewer.ages],
        "own cpu": time.process_time() - cpu, "ended": ended,
    }  # fmt: skip
    print(json.dumps(seen), flush=True)


# ---- the bare loop ----------------------------------------------------------------------------------------------------


def serve_bare() -> None:
    """The child process: write to all sockets, 30 times a second, and let trio-websocket read what comes."""
    trio.run(_serve_bare)


async def _serve_bare() -> None:
    sockets: set[trio.socket.SocketType] = set()

    async def serve(request: WebSocketRequest) -> None:
        connection = await request.accept()
        own = connection._stream.socket
        await connection.send_message(json.dumps({"type": "reactor.cadence", "data": {"every_us": round(1e6 * CADENCE)}}))
        sockets.add(own)
        try:
            while True:
                await connection.get_message()
        except ConnectionClosed:
            sockets.discard(own)

    async with trio.open_nursery() as nursery:
        started = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
        print(started.port, flush=True)
        began = trio.current_time()
        for number in range(1 << 30):
            await trio.sleep_until(began + number / FPS)
            message = _message(number)
            for each in list(sockets):
                try:
                    socket.socket.send(each._sock, message)
                except OSError:
                    sockets.discard(each)


def _message(seq: int) -> bytes:
    """A frame whose packet has `seq` and when it was made."""
    payload = memoryview(bytes(SIZE))
    head = packet_head(0, seq, 0, 1, None, seq, {"metadata": {"made": time.monotonic()}}, payload)
    return struct.pack("!BBH", 0x82, 126, len(head) + SIZE) + head + payload
