"""What the runtime adds to a model that costs nothing: time from a command to its picture, and processor time a frame.

Latency: a server process with raw 640x480 pictures, our client in this process. A command is sent at a random moment; its
picture is the first frame that names it. A command waits half an interval on average for the next step, and the step's
frame is due the margin later that this machine needs (`pacing/step_margin.py`); the rest is the sockets' and the client's.

Processor: a server process with raw 1280x720 pictures at 30 fps, beside a process that writes the same bytes, WebSocket
header and packet, from one Trio loop. Turns alternate; each begins with a measurement of the idle process.
"""

from __future__ import annotations

import random
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import trio

from benchmarks.peers import RawClient, bare_server, cpu_seconds, opening, reactor_run
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.client import Client, connect
from reactor_trio.protocol import KEYFRAME, packet_head

RATES = (30, 60, 240, 500)
SIZE = (1280, 720)
FPS = 30

DECLARED = """\
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=1_000_000)

"""
MODEL = DECLARED + '''class Model(ReactorPipeline):
    state: State
    def inference(self):
        frame = np.full(({height}, {width}, 3), 127, np.uint8)
        frame.flags.writeable = {writeable}
        while True:
            yield Picture(main=frame)
'''


APP = DECLARED + """class Model(ReactorApp):
    state: State
    def load(self, config_path):
        self.frame = np.full(({height}, {width}, 3), 127, np.uint8)
        self.frame.flags.writeable = {writeable}
    async def process_input(self):
        return self.state.level
    def generate(self, level):
        return Picture(main=self.frame)
    async def process_output(self, outcome):
        return outcome.to_output()
"""


def run(report: Report, *, quick: bool) -> None:
    """Both."""
    latency(report, quick=quick)
    processor(report, quick=quick)


# ---- command to picture -----------------------------------------------------------------------------------------------


def latency(report: Report, *, quick: bool) -> None:
    """Turns over the rates."""
    turns, samples = (2, 20) if quick else (4, 75)
    dice = random.Random(1)
    acks: dict[int, list[float]] = {fps: [] for fps in RATES}
    pictures: dict[int, list[float]] = {fps: [] for fps in RATES}
    shown: dict[int, list[float]] = {fps: [] for fps in RATES}
    for _ in range(turns):
        for fps in RATES:
            with server(640, 480, writeable=False, fps=fps) as (_, port):
                ack, picture, rate = trio.run(latency_of, port, fps, samples, dice)
            acks[fps] += ack
            pictures[fps] += picture
            shown[fps].append(rate)
    columns = ["fps", "received", *SPREAD]
    rows = {
        "command to its picture, ms": lambda fps: spread(pictures[fps]),
        "beyond step and one interval, ms": lambda fps: spread([taken - 1 / fps for taken in pictures[fps]]),
        "beyond half an interval, ms": lambda fps: spread([taken - 0.5 / fps for taken in pictures[fps]]),
        "command to its ack, ms": lambda fps: spread(acks[fps]),
    }
    for title, row in rows.items():
        table = [[fps, median(shown[fps]), *row(fps)] for fps in RATES]
        report.table(f"{title} (raw 640x480, {turns} turns)", columns, table)
    for fps in RATES:
        beyond = spread([taken - 1 / fps for taken in pictures[fps]])[1]
        report.bar(f"{fps} fps: median beyond step and one interval", beyond, 3, "ms")


async def latency_of(
    port: int, fps: int, samples: int, dice: random.Random
) -> tuple[list[float], list[float], float]:
    """Seconds from command to ack and to picture, and the frames a second that arrived."""
    sent: list[float] = []
    acks: list[float] = []
    pictures: list[float] = []
    async with connect(f"ws://127.0.0.1:{port}/ws", video=["raw"]) as client:
        frames = client.frames()
        newest = (await anext(frames)).command_id
        # the interval in as many parts as there are samples, a random moment in each, in random order
        phases = [(part + dice.random()) / samples for part in dice.sample(range(samples), samples)]
        for number, phase in enumerate(phases):
            until = (await anext(frames)).received_at + (3 + phase) / fps
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_command_at, client, until, number, sent, acks)
                while True:
                    frame = await anext(frames)
                    if frame.command_id != newest:
                        pictures.append(frame.received_at - sent[-1])
                        newest = frame.command_id
                        break
        (track,) = client.statistics().tracks.values()
        return acks, pictures, track.fps


async def _command_at(client: Client, at: float, level: int, sent: list[float], acks: list[float]) -> None:
    await trio.sleep_until(at)
    sent.append(trio.current_time())
    await client.command("set_level", level=level)
    acks.append(trio.current_time() - sent[-1])


# ---- processor time a frame -------------------------------------------------------------------------------------------


def processor(report: Report, *, quick: bool) -> None:
    """Turns of bare writes, of the runtime with a read-only frame and with one that it must copy."""
    seconds, turns = (3.0, 2) if quick else (8.0, 5)
    ways: dict[str, Callable[[], object]] = {
        "bare header and payload": partial(bare_server, __name__),
        "runtime, read-only frame": partial(server, *SIZE, writeable=False, fps=FPS),
        "runtime, frame copied": partial(server, *SIZE, writeable=True, fps=FPS),
        "runtime, read-only frame of an app": partial(server, *SIZE, writeable=False, fps=FPS, model=APP),
    }
    cost: dict[str, list[float]] = {name: [] for name in ways}
    idle: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, open_server in ways.items():
            with open_server() as (pid, port):  # type: ignore[attr-defined]
                resting, busy, frames = processor_of(pid, port, seconds)
                idle[name].append(resting)
                cost[name].append((busy - resting * seconds) / frames)
    base = cost["bare header and payload"]
    report.table(
        f"server's processor time a raw {SIZE[0]}x{SIZE[1]} frame at {FPS} fps, ms, {turns} turns of {seconds:g} s",
        ["", "median", "least", "most", "ratio to bare", "idle %"],
        [
            [
                name, *(1000 * f(cost[name]) for f in (median, min, max)),
                median(own / other for own, other in zip(cost[name], base, strict=True)), 100 * median(idle[name]),
            ]
            for name in ways
        ],
    )  # fmt: skip
    pipeline, app = (cost[f"runtime, read-only frame{whose}"] for whose in ("", " of an app"))
    ratio = median(own / other for own, other in zip(app, pipeline, strict=True))
    report.bar("an app's frame: processor time to that of a pipeline's", ratio, 1.05, "times")
    for name in list(ways)[1:]:
        ratio = median(own / other for own, other in zip(cost[name], base, strict=True))
        report.bar(f"{name}: processor time to that of bare writes", ratio, 1.5, "times")


def processor_of(pid: int, port: int, seconds: float) -> tuple[float, float, float]:
    """Processor seconds a second at rest, processor seconds while watched, and the frames that arrived meanwhile."""
    time.sleep(3.0)  # after its start the server checks its encoders and freezes what it holds
    before = cpu_seconds(pid)
    time.sleep(seconds / 4)
    resting = (cpu_seconds(pid) - before) / (seconds / 4)
    with RawClient(port, upgrade=False) as client:
        client.send(opening())
        client.response(body=False)
        drain = bytearray(1 << 20)
        _drain(client.socket, drain, 1.0)
        before = cpu_seconds(pid)
        received = _drain(client.socket, drain, seconds)
        busy = cpu_seconds(pid) - before
    return resting, busy, received / (SIZE[0] * SIZE[1] * 3)


def _drain(connection: socket.socket, into: bytearray, seconds: float) -> int:
    until, received = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        received += connection.recv_into(into)
    return received


# ---- servers ----------------------------------------------------------------------------------------------------------


@contextmanager
def server(width: int, height: int, *, writeable: bool, fps: int, model: str = MODEL) -> Iterator[tuple[int, int]]:
    """`reactor run` with a model that costs nothing; its process id and port."""
    source = model.format(width=width, height=height, writeable=writeable)
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), source, fps=fps, max_fps=fps) as running:
        yield running.process.pid, running.port


def serve_bare() -> None:
    """The child process, which writes the same frames at the same rate and does nothing else."""
    trio.run(_serve_bare)


async def _serve_bare() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listener.socket.getsockname()[1], flush=True)
    payload = memoryview(np.full(SIZE[0] * SIZE[1] * 3, 127, np.uint8))
    stream = await listener.accept()
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    began = trio.current_time()
    for number in range(1 << 30):
        await trio.sleep_until(began + number / FPS)
        head = packet_head(0, number, round(1e6 * number / FPS), KEYFRAME, None, number, {}, payload)
        await _send(stream.socket, struct.pack("!BBQ", 0x82, 127, len(head) + payload.nbytes) + head)
        await _send(stream.socket, payload)


async def _send(connection: trio.socket.SocketType, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[await connection.send(view) :]
