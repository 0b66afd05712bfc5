"""Many sessions on one model, and many viewers of one session: what each gets, how even the shares are, what each costs.

A server process and one client process, which has a bare socket for each client, counts its frames and throws them away, so
that the machine is the server's as far as it can be. Step times of the model are real work on the model thread (numpy, one
thread). Sessions: raw pictures of 160x120. Shares: the fewest and the most frames of a session, to the mean.

Batches: a network of small layers in torch, whose time is mostly that of its calls; each number of sessions once with
`inference()`, whose steps take turns, and once with `batch_inference()`, in the same run.

Viewers: one session of 640x480 in H.264 at 30 fps; all watch at full quality, so one encoder serves them.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers import cpu_seconds, environment, open_websocket, reactor_run, thread_seconds
from benchmarks.pictures import clip_model
from benchmarks.report import Report

COUNTS = (1, 2, 4, 8, 16, 32)
BATCHES = (1, 4, 16)
VIEWERS = (1, 50, 100, 200)
WARM_UP = 4.0
#: what a session may get less or more than the mean
SHARE = 0.2

LIMITS = {"connections": 512, "ping_interval": 3600, "silence": 7200, "handshakes_per_minute": 0}

SMALL = """
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    output: Picture
    fps = 30
    max_sessions = 64

    def inference(self):
        world = np.random.default_rng(2).random((192, 192), np.float32)
        while True:
            for _ in range(STEPS):
                world = np.sin(3 * world + np.roll(world, 1, 0))
            picture = np.empty((120, 160, 3), np.uint8)
            picture[:] = (world[:120, :160, None] * 255)
            picture.flags.writeable = False
            yield picture
"""

NETWORK = """
import numpy as np, torch
from reactor_trio import *
torch.set_num_threads(1)

class Picture(Output):
    main: Video

class Base(ReactorPipeline):
    output: Picture
    max_fps = 1000
    max_sessions = 64

    def load(self, config):
        torch.manual_seed(1)
        layers = [l for _ in range(24) for l in (torch.nn.Conv2d(12, 12, 1), torch.nn.Tanh())]
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 12, 1), *layers, torch.nn.Conv2d(12, 3, 1))
        self.start = torch.rand(1, 3, 24, 32)

    @connected
    def begin(self):
        self.world = self.start

    @torch.inference_mode()
    def forward(self, worlds):
        worlds = torch.tanh(self.net(worlds) + worlds)
        return worlds, (worlds.clamp(0, 1) * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
"""
ONE_BY_ONE = NETWORK + """
class Model(Base):
    def inference(self):
        while True:
            self.world, pictures = self.forward(self.world)
            yield pictures[0]
"""
TOGETHER = NETWORK + """
class Model(Base):
    def batch_inference(self, sessions):
        worlds, pictures = self.forward(torch.cat([session.world for session in sessions]))
        for session, world in zip(sessions, worlds.split(1)):
            session.world = world
        return list(pictures)
"""

WATCHED = clip_model(640, 480, 30)


def run(report: Report, *, quick: bool) -> None:
    """Sessions, batches, viewers."""
    seconds = 2.0 if quick else 8.0
    sessions(report, seconds)
    batches(report, seconds / 2)
    viewers(report, seconds)


# ---- sessions ---------------------------------------------------------------------------------------------------------


def sessions(report: Report, seconds: float) -> None:
    """More and more sessions of a small model on one server; the last ones ask for more than the thread has."""
    rows, least, most = [], 1.0, 1.0
    with sessions_server(SMALL.replace("STEPS", "12"), max_sessions=max(COUNTS)) as server:
        for count in COUNTS:
            figures = _measure(server, ["control"] * count, "raw", seconds)
            mean = sum(figures.frames) / count
            shares = min(figures.frames) / mean, max(figures.frames) / mean
            least, most = min(least, shares[0]), max(most, shares[1])
            rows.append([
                str(count), mean / seconds, *shares, figures.gap(0.5), figures.gap(0.95), figures.late,
                100 * figures.cpu / seconds, 1000 * figures.cpu / sum(figures.frames),
                100 * figures.cpu / seconds / count, 100 * figures.client_cpu / seconds, figures.errors,
            ])  # fmt: skip
    report.table(
        f"sessions of a small model, 30 fps asked for ({seconds:g} s each)",
        ["sessions", "fps each", "least share", "most share", "gap p50 ms", "gap p95 ms", "late ms", "server %",
         "ms a frame", "% a session", "clients %", "errors"], rows,
    )  # fmt: skip
    report.bar("the least share of a session", least, 1 - SHARE, "of the mean", least=True)
    report.bar("the greatest share of a session", most, 1 + SHARE, "of the mean")
    report.bar("errors", float(sum(int(row[-1]) for row in rows)), 0, "")


def batches(report: Report, seconds: float) -> None:
    """The same network, its sessions one after the other and together."""
    rows = []
    for count in BATCHES:
        rates = []
        for source in (ONE_BY_ONE, TOGETHER):
            with sessions_server(source, max_sessions=count) as server:
                rates.append(sum(_measure(server, ["control"] * count, "raw", seconds).frames) / seconds)
        rows.append([str(count), *rates, rates[1] / rates[0]])
    report.table(
        "frames a second of all sessions, a network of small layers in torch",
        ["sessions", "inference()", "batch_inference()", "ratio"], rows,
    )  # fmt: skip


def viewers(report: Report, seconds: float) -> None:
    """More and more viewers of one session."""
    rows = []
    with sessions_server(WATCHED) as server:
        for count in VIEWERS:
            roles = ["control"] + ["viewer"] * (count - 1)
            figures = _measure(server, roles, "h264", seconds)
            mean = sum(figures.frames) / count
            others = figures.cpu - figures.main_cpu
            rows.append([
                str(count), mean / seconds, min(figures.frames) / mean, max(figures.frames) / mean,
                100 * figures.main_cpu / seconds, 100 * others / seconds, 1000 * figures.main_cpu / sum(figures.frames),
                100 * figures.cpu / seconds / count, 100 * figures.client_cpu / seconds, figures.errors,
            ])  # fmt: skip
    report.table(
        f"viewers of one session, 640x480 H.264 at 30 fps ({seconds:g} s each)",
        ["viewers", "fps each", "least share", "most share", "I/O loop %", "model, encoder %", "ms to send one",
         "% a viewer", "clients %", "errors"], rows,
    )  # fmt: skip
    report.bar(f"{VIEWERS[-1]} viewers: the least share", float(rows[-1][2]), 1 - SHARE, "of the mean", least=True)
    report.bar("errors", float(sum(int(row[-1]) for row in rows)), 0, "")


# ---- measuring --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def sessions_server(source: str, **runtime: Any) -> Any:
    """A server of the model with room for many clients."""
    with tempfile.TemporaryDirectory() as folder:
        with reactor_run(Path(folder), source, limits=LIMITS, queue=0, **runtime) as server:
            yield server


class Figures:
    """What came of one run: times in seconds, `late` in milliseconds; `errors`: connections that ended."""

    def __init__(self, counted: dict[str, Any], cpu: float, main_cpu: float, late: float) -> None:
        self.frames: list[int] = counted["frames"]
        self.gaps: list[float] = sorted(counted["gaps"])
        self.client_cpu: float = counted["cpu"]
        self.errors = int(counted["ended"])
        self.cpu, self.main_cpu, self.late = cpu, main_cpu, late

    def gap(self, part: float) -> float:
        """Milliseconds between two frames of one client: of that part of all gaps the most."""
        return 1000 * self.gaps[min(int(part * len(self.gaps)), len(self.gaps) - 1)] if self.gaps else float("nan")


def _measure(server: Any, roles: list[str], video: str, seconds: float) -> Figures:
    read: list[dict[str, float]] = []
    counted, cpu, main_cpu = count_frames(
        server.process.pid, server.port, roles, video, seconds, WARM_UP, lambda: read.append(_metrics(server.port))
    )
    metrics, after = read
    gained = {name: after[name] - metrics.get(name, 0.0) for name in after}
    shown = gained.get("reactor_emission_lateness_seconds_count", 0.0)
    late = 1000 * gained.get("reactor_emission_lateness_seconds_sum", 0.0) / max(shown, 1)
    return Figures(counted, cpu, main_cpu, late)


def count_frames(
    pid: int, port: int, roles: list[str], video: str, seconds: float, warm_up: float, around: Callable[[], object] = int
) -> tuple[dict[str, Any], float, float]:
    """Let a client of each role read for `seconds`, after `warm_up`; `around` is called before and after.

    Returns what the clients have counted, and the processor seconds of the server's process and of its main thread.
    """
    with subprocess.Popen(
        [sys.executable, "-c", "from benchmarks.sessions import drain; drain()", json.dumps([port, roles, video])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    ) as clients:  # fmt: skip
        assert clients.stdin is not None
        assert clients.stdout is not None
        assert clients.stdout.readline() == "connected\n"
        time.sleep(warm_up)
        around()
        before, main = cpu_seconds(pid), thread_seconds(pid)[pid][0]
        clients.stdin.write(f"{seconds}\n")
        clients.stdin.flush()
        counted = json.loads(clients.stdout.readline())
        cpu, main_cpu = cpu_seconds(pid) - before, thread_seconds(pid)[pid][0] - main
        around()
    time.sleep(1.0)  # the sessions unwind
    return counted, cpu, main_cpu


def _metrics(port: int) -> dict[str, float]:
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


# ---- the client process -----------------------------------------------------------------------------------------------


class _Counter:
    """Counts the binary messages of one WebSocket whose payload nobody looks at."""

    def __init__(self, port: int, role: str, video: str) -> None:
        self.socket = open_websocket(port, f"/ws?video={video}&role={role}")
        self.frames = 0
        self.last = 0.0
        self.gaps: list[float] = []
        self._head = bytearray()
        self._skip = 0

    def take(self, data: memoryview, now: float) -> None:
        """The next bytes of the stream."""
        at, end = 0, len(data)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) < 2:
                continue
            short = self._head[1] & 127
            wide = 2 if short == 126 else 8 if short == 127 else 0
            if len(self._head) < 2 + wide:
                continue
            self._skip = int.from_bytes(self._head[2:], "big") if wide else short
            if self._head[0] & 15 == 2:
                self.frames += 1
                if self.last:
                    self.gaps.append(now - self.last)
                self.last = now
            self._head.clear()


def drain() -> None:
    """The process: connect, say so, read for ever; count for as long as the line on stdin says, and print it."""
    port, roles, video = json.loads(sys.argv[1])
    buffer = memoryview(bytearray(1 << 20))
    chosen, counters, ended = selectors.DefaultSelector(), [], 0
    for role in roles:
        counter = _Counter(port, role, video)
        counter.socket.setblocking(False)
        counters.append(counter)
        chosen.register(counter.socket, selectors.EVENT_READ, counter)
    print("connected", flush=True)
    chosen.register(sys.stdin, selectors.EVENT_READ, None)
    until, cpu = None, 0.0
    while until is None or time.monotonic() < until:
        for key, _ in chosen.select(0.1):
            if key.data is None:
                until = time.monotonic() + float(sys.stdin.readline())
                chosen.unregister(sys.stdin)
                cpu = _own_cpu()
                for counter in counters:
                    counter.frames, counter.gaps, counter.last = 0, [], 0.0
                continue
            size = key.data.socket.recv_into(buffer)
            if not size:
                ended += 1
                chosen.unregister(key.fileobj)
            key.data.take(buffer[:size], time.monotonic())
    frames, gaps = [c.frames for c in counters], [gap for c in counters for gap in c.gaps]
    print(json.dumps({"frames": frames, "gaps": gaps, "cpu": _own_cpu() - cpu, "ended": ended}), flush=True)


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
