"""What a process of its own costs a model, what it is good for, and how long its clients are without it when it dies.

Cost: from a command to its picture and processor time a frame, with the model in the server's process and in its own, in
turns. Use: how late frames are emitted while the model holds the interpreter for most of each step, as C code that does not
let go of it does. Death: a server whose model is killed again and again while clients watch.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import trio

from benchmarks.overhead import FPS, MODEL, SIZE, latency_of, processor_of
from benchmarks.peers import RawClient, ReactorProcess, cpu_seconds, health, reactor_run
from benchmarks.report import SPREAD, Report, spread

PLACEMENTS = ("thread", "process")
#: seconds that the model of the kills takes to load
LOAD = 0.5
#: clients that watch, one of them in control
WATCHERS = 4

HOLDS = """
import ctypes
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    level: int = 0

held = ctypes.PyDLL(None).usleep  # a PyDLL keeps the interpreter's lock

class Model(ReactorPipeline):
    state: State
    fps = 30
    def inference(self):
        frame = np.full((240, 320, 3), 127, np.uint8)
        while True:
            held(25_000)
            yield Picture(main=frame)
"""

LOADS = "import time\n" + MODEL.replace(
    "    def inference", f"    def load(self, config):\n        time.sleep({LOAD})\n    def inference"
)


def run(report: Report, *, quick: bool) -> None:
    """All three."""
    cost(report, turns=2 if quick else 5, quick=quick)
    held(report, quick=quick)
    kills(report, quick=quick)


def turn(report: Report, *, quick: bool) -> None:
    """One turn of the cost (a minute)."""
    cost(report, turns=1, quick=quick)


# ---- cost -------------------------------------------------------------------------------------------------------------


def cost(report: Report, *, turns: int, quick: bool) -> None:
    """Turns of both placements."""
    samples, seconds = (20, 2.0) if quick else (60, 6.0)
    dice = random.Random(1)
    pictures: dict[str, list[float]] = {place: [] for place in PLACEMENTS}
    spent: dict[str, list[float]] = {place: [] for place in PLACEMENTS}
    memory: dict[str, list[float]] = {place: [] for place in PLACEMENTS}
    for _ in range(turns):
        for place in PLACEMENTS:
            with served(MODEL.format(width=640, height=480, writeable=True), place, FPS) as (server, _pids):
                _acks, shown, _fps = trio.run(latency_of, server.port, FPS, samples, dice)
                pictures[place] += shown
            with served(MODEL.format(width=SIZE[0], height=SIZE[1], writeable=True), place, FPS) as (server, pids):
                before = [cpu_seconds(pid) for pid in pids]
                _resting, _busy, frames = processor_of(pids[0], server.port, seconds)
                spent[place].append(sum(cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True)) / frames)
                memory[place].append(sum(_memory(pid) for pid in pids) / 2**20)
    report.table(
        f"command to its picture, ms (raw 640x480, {FPS} fps, {turns} turns)", ["", *SPREAD],
        [[place, *spread(pictures[place])] for place in PLACEMENTS],
    )  # fmt: skip
    ratio = median(own / other for own, other in zip(spent["process"], spent["thread"], strict=True))
    report.table(
        f"all processes, raw {SIZE[0]}x{SIZE[1]} at {FPS} fps, {turns} turns of {seconds:g} s",
        ["", "processor ms a frame", "ratio to thread", "memory (PSS) MiB"],
        [
            [place, 1000 * median(spent[place]), 1.0 if place == "thread" else ratio, median(memory[place])]
            for place in PLACEMENTS
        ],
    )  # fmt: skip
    for place in PLACEMENTS:
        report.figure(f"{place}: command to its picture p50, ms", 1000 * median(pictures[place]))
        report.figure(f"{place}: processor time of a frame, ms", 1000 * median(spent[place]))
        report.figure(f"{place}: memory, MiB", median(memory[place]))


# ---- a model that holds the interpreter -------------------------------------------------------------------------------


def held(report: Report, *, quick: bool) -> None:
    """Time between frames at a client, and how long a plain request takes meanwhile."""
    seconds = 3.0 if quick else 10.0
    rows = []
    for place in PLACEMENTS:
        with served(HOLDS, place, FPS) as (server, _pids), RawClient(server.port) as client:
            client.picture()
            intervals, answers, last = [], [], time.monotonic()
            until = last + seconds
            asking = threading.Thread(target=_ask, args=(server.port, until, answers))
            asking.start()
            while last < until:
                client.picture()
                now = time.monotonic()
                intervals.append(now - last)
                last = now
            asking.join()
        rows += [[f"{place}: between frames", *spread(intervals)], [f"{place}: GET /health", *spread(answers)]]
    report.table(
        f"a step that holds the interpreter for 25 of 33 ms, ms ({seconds:g} s)", ["", *SPREAD], rows
    )


def _ask(port: int, until: float, answers: list[float]) -> None:
    while (began := time.monotonic()) < until:
        health(port)
        answers.append(time.monotonic() - began)
        time.sleep(0.05)


# ---- kills ------------------------------------------------------------------------------------------------------------


def kills(report: Report, *, quick: bool) -> None:
    """Kill the model's process under its clients, again and again."""
    from reactor_trio.placement.restarts import STAYED  # here, because the cost is also measured over older trees

    times = 5 if quick else 50
    told: list[float] = []
    back: list[float] = []
    reasons: set[str] = set()
    with served(LOADS.format(width=640, height=480, writeable=True), "process", FPS) as (server, _pids):
        first: tuple[int, int, float] | None = None
        for _ in range(times + 1):
            time.sleep(STAYED)  # a model that ends sooner is in a crash loop, in which the pauses grow
            clients = watchers(server, 15)
            if first is None:
                first = _holds(server)
            began = time.monotonic()
            os.kill(children(server.process.pid)[0], signal.SIGKILL)
            watching = [threading.Thread(target=until_told, args=(one, began, told, reasons)) for one in clients]
            for thread in watching:
                thread.start()
            while health(server.port)[0] == 200 and time.monotonic() - began < 5:
                pass
            while health(server.port)[0] != 200:
                time.sleep(0.005)
            back.append(time.monotonic() - began)
            for thread in watching:
                thread.join()
            for client in clients:
                client.socket.close()
        time.sleep(0.5)
        last, left = _holds(server), len(children(server.process.pid))
    report.table(
        f"the model killed {times + 1} times under {WATCHERS} clients, ms; its load takes {1000 * LOAD:g}", ["", *SPREAD],
        [["clients told (model_restarting)", *spread(told)], ["served again", *spread(back)],
         ["served again, beyond the load", *spread([taken - LOAD for taken in back])]],
    )  # fmt: skip
    report.table(
        "held by the server's process, clients gone", ["", "descriptors", "threads", "resident MiB", "children"],
        [["before the first", *first, 1], ["after the last", *last, left]],
    )  # fmt: skip
    report.bar("told, worst", max(told), 1, "s")
    report.bar("served again beyond the load, worst", max(back) - LOAD, 2, "s")
    report.bar("other reasons told", len(reasons - {"model_restarting"}), 0, "")


def watchers(server: ReactorProcess, pictures: int) -> list[RawClient]:
    """Clients of one session that have each seen so many pictures."""
    clients = [RawClient(server.port)]
    clients[0].text("reactor.welcome")
    clients += [RawClient(server.port, "/ws?video=raw&role=viewer") for _ in range(WATCHERS - 1)]
    for client in clients:
        for _ in range(pictures):
            client.picture()
    return clients


def until_told(client: RawClient, began: float, told: list[float], reasons: set[str]) -> None:
    """Note when, and why, its session ends."""
    bye = client.text("reactor.bye")
    told.append(time.monotonic() - began)
    reasons.add(bye["data"]["reason"])


def _holds(server: ReactorProcess) -> tuple[int, int, float]:
    frames = [name for name in server.descriptors() if "reactor-frames" in name or "socket" in name]
    return len(server.descriptors()) - len(frames), server.threads(), server.memory() / 2**20


# ---- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def served(source: str, place: str, fps: int) -> Iterator[tuple[ReactorProcess, list[int]]]:
    """`reactor run`, and the ids of its processes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        reactor_run(Path(folder), source, fps=fps, max_fps=fps, isolation=place) as server,
    ):
        yield server, [server.process.pid, *children(server.process.pid)]


def children(pid: int) -> list[int]:
    """The processes that this one has started and that have not ended."""
    return [int(child) for task in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]  # fmt: skip


def _memory(pid: int) -> int:
    """Bytes of a process, of which it has a share only where several processes have them (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
