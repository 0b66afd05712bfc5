"""What lock-step costs a frame, and how soon clients know that a rank is gone.

Cost: a model that waits for nothing, with 1 rank in a process of its own and with 2 in lock-step, in turns: frames a second
where it computes next to nothing, and where a step sleeps for 10 ms, with and without a collective operation. Death: one
rank of two is killed again and again while clients watch.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from benchmarks.isolation import WATCHERS, children, until_told, watchers
from benchmarks.peers import RawClient, cpu_seconds, health, reactor_run
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.placement.restarts import STAYED

MODEL = """
import time
import numpy as np
import torch
from torch import distributed
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(DistributedPipeline):
    output: Picture
    fps = max_fps = 1000
    ranks = {ranks}

    def inference(self):
        frame = np.zeros((240, 320, 3), np.uint8)
        part = torch.zeros(1000)
        while True:
            time.sleep({seconds})
            if {meets} and self.world_size > 1:
                distributed.all_reduce(part)
            yield Picture(main=frame)
"""

#: what a step does: seconds that it sleeps, and whether ranks meet in it
STEPS = {
    "a step of nothing": (0.0, False),
    "a step of 10 ms": (0.01, False),
    "a step of 10 ms with all_reduce": (0.01, True),
}


def run(report: Report, *, quick: bool) -> None:
    """Both."""
    cost(report, quick=quick)
    kills(report, quick=quick)


def cost(report: Report, *, quick: bool) -> None:
    """Frames made in a while, by one rank and by two."""
    turns, seconds = (1, 2.0) if quick else (5, 5.0)
    rows = []
    for what, (sleeps, meets) in STEPS.items():
        periods: dict[int, list[float]] = {1: [], 2: []}
        spent: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(turns):
            for ranks in (1, 2):
                source = MODEL.format(ranks=ranks, seconds=sleeps, meets=meets)
                period, processor = _frame(source, seconds)
                periods[ranks].append(period)
                spent[ranks].append(processor)
        one, two = (1000 * median(periods[ranks]) for ranks in (1, 2))
        ratio = median(two / one for one, two in zip(periods[1], periods[2], strict=True))
        rows.append([what, one, two, two - one, ratio, 1000 * median(spent[1]), 1000 * median(spent[2])])
    report.table(
        f"a frame, unpaced, ms (320x240, {turns} turns of {seconds:g} s)",
        ["", "1 rank", "2 ranks", "more", "ratio", "processor, 1", "processor, 2"], rows,
    )  # fmt: skip


def _frame(source: str, seconds: float) -> tuple[float, float]:
    """Seconds from step to step, and seconds of processor time for each, all processes together."""
    with (
        tempfile.TemporaryDirectory() as folder,
        reactor_run(Path(folder), source, fps=1000, max_fps=1000, isolation="process") as server,
        RawClient(server.port) as client,
    ):
        for _ in range(30):
            client.picture()
        pids = [server.process.pid, *children(server.process.pid)]
        first, began, before = client.picture().step, time.monotonic(), sum(map(cpu_seconds, pids))
        last = first
        while time.monotonic() - began < seconds:
            last = client.picture().step
        passed = time.monotonic() - began
        return passed / (last - first), (sum(map(cpu_seconds, pids)) - before) / (last - first)


def kills(report: Report, *, quick: bool) -> None:
    """Kill one rank under its clients, again and again."""
    times = 4 if quick else 30
    told: list[float] = []
    back: list[float] = []
    reasons: set[str] = set()
    source = MODEL.format(ranks=2, seconds=0.01, meets=True)
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), source, fps=30, max_fps=30) as server:
        for number in range(times):
            time.sleep(STAYED)  # a model that ends sooner is in a crash loop, in which the pauses grow
            clients = watchers(server, 10)
            began = time.monotonic()
            os.kill(sorted(children(server.process.pid))[number % 2], signal.SIGKILL)
            watching = [threading.Thread(target=until_told, args=(one, began, told, reasons)) for one in clients]
            for thread in watching:
                thread.start()
            for thread in watching:
                thread.join()
            while health(server.port)[0] != 200:
                time.sleep(0.02)
            back.append(time.monotonic() - began)
            for client in clients:
                client.socket.close()
        left = len(children(server.process.pid))
    report.table(
        f"one of two ranks killed {times} times under {WATCHERS} clients, ms", ["", *SPREAD],
        [["clients told (model_restarting)", *spread(told)], ["served again", *spread(back)]],
    )  # fmt: skip
    report.bar("told, worst", max(told), 1, "s")
    report.bar("other reasons told", len(reasons - {"model_restarting"}), 0, "")
    report.bar("processes besides the two ranks", left - 2, 0, "")
