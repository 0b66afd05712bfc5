"""How the cost of serving grows with viewers, frame size and batch, and where it ends: the knee.

A server process plays a moving, grainy picture at 30 fps; its model costs nothing. Clients in one other process receive and
acknowledge, and decode nothing. One thing is varied at a time: the viewers of one session, more until the knee; the size,
with one viewer; the batch, with one viewer. A process's first session is not measured.

What is measured, at each point, for some seconds:

* pictures a second for each viewer, and as a share of what was made; bits a second, which fall where viewers are given less
  because they acknowledge late;
* the server's processor time, all its threads, for a picture delivered to one viewer and for a picture made;
* how busy each part is, from `/proc/PID/task/*/schedstat`: the share of the time for which its threads ran, and `waits`, for
  which they could have run and no core was free. The I/O loop (pacing, sockets) and the model (copying each picture) have
  one thread each; the encoder is all other threads of the server, the conversion of colours included. The clients compete
  for the same cores;
* the age of a picture in ms: from the moment the model yields it until a client has received it, pooled over viewers; of a
  batch its first picture, since the others wait for their turn. And how late it was handed out, the mean of
  `reactor_emission_lateness_seconds`. At the knee also what was dropped, where and why;
* MiB that the server has more than at rest, where the clip it plays is already in memory.

The knee is the first point at which viewers get less than 95 % of 30 fps, or the age's p95 is two intervals above its least:
the pacer's margin alone may be one, for some seconds after a step that came late.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers import ROOT, ReactorProcess, environment, reactor_run, thread_seconds
from benchmarks.report import Report

FPS = 30
VGA = (640, 480)
SIZES = ((320, 240), VGA, (1280, 720), (1920, 1080))
BATCHES = (1, 4, 12, 32)
VIEWERS = (1, 2, 4, 8, 16, 32, 64, 128, 192)
CODECS = ("h264", "jpeg", "raw")
#: pictures of the clip: whole batches of each size
CLIP = 96
#: seconds of a session that are not counted; and steps, until the pacer knows how long they take
WARM_UP = 1.5
STEPS = 13
#: share of the pictures below which there is a knee
ENOUGH = 0.95
LATENESS = "reactor_emission_lateness_seconds"
DROPPED = re.compile(r'^reactor_frames_dropped_total\{place="(\w+)",reason="(\w+)"\} (\S+)$', re.MULTILINE)

MODEL = """
import sys
sys.path.insert(0, {root!r})
import threading
import time
import numpy as np
from benchmarks.pictures import clip
from reactor_trio import *

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    output: Picture
    fps = {fps}

    def load(self, config):
        self.thread, self.made = threading.get_native_id(), []
        self.chunks = clip({width}, {height}, {frames})
        if {batch} > 1:
            self.chunks = [np.stack(self.chunks[i : i + {batch}]) for i in range(0, {frames}, {batch})]

    @event
    def told(self) -> dict:
        return {{"thread": self.thread, "made": self.made}}

    def inference(self):
        self.made = []
        while True:
            for chunk in self.chunks:
                self.made.append(time.monotonic())
                yield chunk
"""


@dataclass(frozen=True)
class Share:
    """Of the time, for which threads ran and for which they waited for a core."""

    ran: float
    waited: float


@dataclass(frozen=True)
class Point:
    """What was seen at one load. `cpu` of the server, `lateness` and `ages` in seconds."""

    viewers: int
    width: int
    height: int
    batch: int
    #: pictures a second for each viewer
    fps: float
    bits_per_second: float
    delivered: int
    made: int
    cpu: float
    parts: dict[str, Share]
    age_p50: float
    age_p95: float
    lateness: float
    #: frames dropped meanwhile, by place and reason
    drops: dict[str, int]
    grown_mib: float

    def label(self, by: str) -> str:
        """What sets it apart in a series by `viewers`, `size` or `batch`."""
        return f"{self.width}x{self.height}" if by == "size" else str(getattr(self, by))


@dataclass(frozen=True)
class Series:
    """Points at which one thing, `by`, is varied."""

    title: str
    by: str
    codec: str
    points: list[Point]


def run(report: Report, *, quick: bool) -> None:
    """All series; quick: a few points of H.264."""
    seconds, codecs = (2.0, CODECS[:1]) if quick else (4.0, CODECS)
    viewers, sizes, batches = ((1, 4, 16), SIZES[1:3], (1, 12)) if quick else (VIEWERS, SIZES, BATCHES)
    name = "{}x{}".format(*VGA)
    series = []
    with _serving(VGA) as server:
        for codec in codecs:
            grown = Series(f"viewers, {name}, {codec}", "viewers", codec, [])
            series.append(grown)
            for number in viewers:
                grown.points.append(server.measure(number, codec, seconds))
                _progress(grown)
                if _bends(grown.points):
                    break
    by_size = [Series(f"size, one viewer, {codec}", "size", codec, []) for codec in codecs]
    for size in sizes:
        with _serving(size) as server:
            for codec, grown in zip(codecs, by_size, strict=True):
                grown.points.append(server.measure(1, codec, seconds))
                _progress(grown)
    by_batch = Series(f"batch, one viewer, {name}, {codecs[0]}", "batch", codecs[0], [])
    for batch in batches:
        with _serving(VGA, batch) as server:
            by_batch.points.append(server.measure(1, codecs[0], seconds))
            _progress(by_batch)
    for grown in (*series, *by_size, by_batch):
        _tell(report, grown)
    report.data["series"] = [asdict(grown) for grown in (*series, *by_size, by_batch)]


# ---- figures ---------------------------------------------------------------------------------------------------------

COLUMNS = (
    "fps", "% of made", "kbit/s", "CPU/delivered", "CPU/made", "I/O %", "waits %", "model %", "encoder %", "waits %",
    "clients %", "age p50", "p95", "late", "MiB", "pictures",
)  # fmt: skip


def _progress(series: Series) -> None:
    print(f"  {series.title}: {series.points[-1].label(series.by)}: {series.points[-1].fps:.1f} fps", flush=True)


def _tell(report: Report, series: Series) -> None:
    report.table(
        f"{series.title}: fps and kbit/s of each, ms, percent of a core", [series.by, *COLUMNS],
        [[point.label(series.by), *_row(point)] for point in series.points],
    )  # fmt: skip
    report.note(f"the knee: {_knee(series)}")


def _row(point: Point) -> list[object]:
    parts = point.parts
    return [
        point.fps, 100 * point.delivered / point.viewers / point.made, point.bits_per_second / 1000,
        1000 * point.cpu / point.delivered, 1000 * point.cpu / point.made,
        100 * parts["I/O loop"].ran, 100 * parts["I/O loop"].waited, 100 * parts["model"].ran,
        100 * parts["encoder"].ran, 100 * parts["encoder"].waited, 100 * parts["clients"].ran,
        1000 * point.age_p50, 1000 * point.age_p95, 1000 * point.lateness, point.grown_mib, point.delivered,
    ]  # fmt: skip


def _bends(points: list[Point]) -> bool:
    """Whether the last point is beyond the knee."""
    last = points[-1]
    return last.fps < ENOUGH * FPS or last.age_p95 > min(point.age_p95 for point in points) + 2 / FPS


def _knee(series: Series) -> str:
    found = next((n for n in range(len(series.points)) if _bends(series.points[: n + 1])), None)
    if found is None:
        return f"none up to {series.points[-1].label(series.by)}"
    point = series.points[found]
    parts = sorted(point.parts.items(), key=lambda part: -part[1].ran - part[1].waited)
    said = ", ".join(f"{name} {100 * share.ran:.0f} % (waits {100 * share.waited:.0f} %)" for name, share in parts)
    drops = ", ".join(f"{what} {frames}" for what, frames in point.drops.items()) or "none"
    before = f"after {series.points[found - 1].label(series.by)}, " if found else ""
    return (
        f"{before}at {point.label(series.by)}: {point.fps:.1f} fps, age p95 {1000 * point.age_p95:.0f} ms; busy: {said}; "
        f"{sum(share.ran for share in point.parts.values()):.2f} cores in all; dropped: {drops}"
    )


# ---- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """Since the server began: pictures handed out, by how many seconds in all they were late, what was dropped."""

    shown: float
    late: float
    drops: dict[str, int]


class _Server:
    """A server of one size and batch, once its first session is over."""

    def __init__(self, size: tuple[int, int], batch: int, process: ReactorProcess) -> None:
        self._size, self._batch = size, batch
        self._process = process
        self._url = f"127.0.0.1:{process.port}"
        self._count()  # the first answer loads what writes it
        self._rest = process.memory()
        with self._watched(1, CODECS[0]):
            time.sleep(WARM_UP)

    def measure(self, viewers: int, codec: str, seconds: float) -> Point:
        """A session with so many viewers."""
        pid = self._process.process.pid
        with self._watched(viewers, codec) as clients:
            time.sleep(WARM_UP + STEPS * self._batch / FPS)
            counts, server, theirs = self._count(), thread_seconds(pid), thread_seconds(clients.pid)
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            server_then, theirs_then, counts_then = thread_seconds(pid), thread_seconds(clients.pid), self._count()
            memory = self._process.memory()
            out, _ = clients.communicate(timeout=60)
        seen = json.loads(out)
        assert seen["codec"] == codec, f"asked for {codec}, got {seen['codec']}"
        packets = np.array([packet for packet in seen["packets"] if began <= packet[0] < began + took])
        assert len(packets), f"{viewers} viewers of {self._size} in {codec} got nothing"
        at, size, seq, _ = packets.T
        made = np.array(seen["told"]["made"])
        firsts = seq % self._batch == 0
        ages = at[firsts] - made[(seq[firsts] // self._batch).astype(int)]
        parts = _shares(server, server_then, {pid: "I/O loop", seen["told"]["thread"]: "model"}, "encoder", took)
        cpu = took * sum(share.ran for share in parts.values())
        drops = {what: more for what, frames in counts_then.drops.items() if (more := frames - counts.drops[what])}
        lateness = (counts_then.late - counts.late) / max(counts_then.shown - counts.shown, 1)
        return Point(
            viewers, *self._size, self._batch, len(at) / took / viewers, 8 * float(size.sum()) / took / viewers,
            len(at), int(seq.max() - seq.min()) + 1, cpu, parts | _shares(theirs, theirs_then, {}, "clients", took),
            *(float(np.percentile(ages, q)) for q in (50, 95)), lateness, drops, (memory - self._rest) / 2**20,
        )  # fmt: skip

    def _count(self) -> _Counts:
        with urllib.request.urlopen(f"http://{self._url}/metrics") as answer:
            text = answer.read().decode()
        (shown,) = re.findall(rf"^{LATENESS}_count (\S+)$", text, re.MULTILINE)
        (late,) = re.findall(rf"^{LATENESS}_sum (\S+)$", text, re.MULTILINE)
        drops = {f"{reason} ({place})": round(float(frames)) for place, reason, frames in DROPPED.findall(text)}
        return _Counts(float(shown), float(late), drops)

    @contextmanager
    def _watched(self, viewers: int, codec: str) -> Iterator[subprocess.Popen[str]]:
        command = [
            sys.executable, "-m", "benchmarks.viewer", f"ws://{self._url}/ws", codec, "control", "0",
            "--count", str(viewers), "--ask", "told",
        ]  # fmt: skip
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().strip() == "ready", f"{viewers} viewers did not come in"
                yield process
            finally:
                process.kill()


@contextmanager
def _serving(size: tuple[int, int], batch: int = 1) -> Iterator[_Server]:
    width, height = size
    model = MODEL.format(root=str(ROOT), fps=FPS, width=width, height=height, frames=CLIP, batch=batch)
    limits = {"connections": 2 * max(VIEWERS)}
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), model, limits=limits) as process:
        yield _Server(size, batch, process)


Times = Mapping[int, tuple[float, float]]


def _shares(before: Times, after: Times, names: dict[int, str], others: str, seconds: float) -> dict[str, Share]:
    """By name, of what threads did between two looks; `others` are those that have none."""
    sums = {name: [0.0, 0.0] for name in (*names.values(), others)}
    for thread, times in after.items():
        for kind, (then, now) in enumerate(zip(before.get(thread, (0.0, 0.0)), times, strict=True)):
            sums[names.get(thread, others)][kind] += now - then
    return {name: Share(ran / seconds, waited / seconds) for name, (ran, waited) in sums.items()}
