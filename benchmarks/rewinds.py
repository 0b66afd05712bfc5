"""Rewinds of a served model: from the command to the picture of the moment and to the first new frame; what moments cost.

A server process with raw pictures, our client in this process. Latency: a rewind is sent at a random moment, by one step or
by two seconds. Its picture is the first frame that is shown again, its first new frame the first one that names the command.
Cost: the same model with `Saves` and without, in turns; each step computes for a while and changes a world of the dream's
size.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import trio

from benchmarks.overhead import SIZE, processor_of
from benchmarks.peers import reactor_run
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.client import connect

FPS = 30
#: seconds that a step takes: far less than an interval, most of one, and several
STEPS = (0.001, 0.025, 0.1)
WINDOW = 197_000  # bytes of the dream's world
FIRST_FRAME = 2.0  # of the larger one of step and interval
PICTURE = 100.0  # milliseconds
COST = 1.05  # of a step without moments

MODEL = """\
import time
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    _window: np.ndarray = None
    _number: int = 0

class Model(ReactorPipeline):
    state: State
    {saves}

    def inference(self):
        picture = np.full(({height}, {width}, 3), 127, np.uint8)
        picture.flags.writeable = False
        work = np.random.default_rng(1).random((160, 160))
        while True:
            if self.state._window is None:
                self.state._window = np.zeros({window}, np.uint8)
            until = time.perf_counter() + {seconds}
            {work}
            self.state._window[:] = self.state._number % 256
            self.state._number += 1
            yield Picture(main=picture)
"""
SLEEPS = "time.sleep(max(0, until - time.perf_counter()))"
COMPUTES = "[work @ work for _ in range(4)]"  # some milliseconds; the same work in each step


def run(report: Report, *, quick: bool) -> None:
    """Both."""
    latency(report, quick=quick)
    cost(report, quick=quick)


@contextmanager
def server(seconds: float, size: tuple[int, int], *, work: str, saves: bool = True) -> Iterator[tuple[int, int]]:
    """`reactor run` with the model; its process id and port."""
    width, height = size
    source = MODEL.format(
        saves="saves = Saves()" if saves else "", width=width, height=height, window=WINDOW, seconds=seconds, work=work
    )
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), source, fps=FPS, max_fps=FPS) as running:
        yield running.process.pid, running.port


def latency(report: Report, *, quick: bool) -> None:
    """Turns over the steps' times."""
    turns, samples = (1, 8) if quick else (3, 25)
    dice = random.Random(1)
    taken: dict[float, list[tuple[float, float, float]]] = {seconds: [] for seconds in STEPS}
    for _ in range(turns):
        for seconds in STEPS:
            with server(seconds, (320, 180), work=SLEEPS) as (_, port):
                taken[seconds] += trio.run(latency_of, port, seconds, samples, dice)
    columns = ["step, ms", *SPREAD]
    for title, part in (("its ack", 0), ("the picture of the moment", 1), ("its first new frame", 2)):
        rows = [[1000 * seconds, *spread([each[part] for each in all_])] for seconds, all_ in taken.items()]
        report.table(f"rewind to {title}, ms (raw 320x180 at {FPS} fps, {turns} turns)", columns, rows)
    for seconds, samples_ in taken.items():
        longest = max(seconds, 1 / FPS)
        ratio = median(first for _, _, first in samples_) / longest
        report.bar(f"a step of {1000 * seconds:g} ms: first new frame, of step or interval", ratio, FIRST_FRAME, "x")
        report.bar(
            f"a step of {1000 * seconds:g} ms: the picture", 1000 * median(seen for _, seen, _ in samples_), PICTURE, "ms"
        )


async def latency_of(port: int, seconds: float, samples: int, dice: random.Random) -> list[tuple[float, float, float]]:
    """Seconds from each rewind to its ack, to the picture of the moment and to its first new frame.

    Where the first new frame comes before the picture of the moment, which is left out then, it is the picture.
    """
    taken = []
    async with connect(f"ws://127.0.0.1:{port}/ws", video=["raw"]) as client:
        frames = client.frames()
        for number in range(samples):
            for _ in range(12 if number else 40):
                await anext(frames)
            answered = [0.0]

            async def rewind(number: int = number, answered: list[float] = answered) -> None:
                if number % 2:
                    await client.worlds.rewind(steps=1)
                else:
                    await client.worlds.rewind(seconds=2.0)
                answered[0] = trio.current_time()

            again = None
            newest = (await anext(frames)).command_id
            await trio.sleep(dice.random() * max(seconds, 1 / FPS))
            sent = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rewind)
                while True:
                    frame = await anext(frames)
                    if frame.meta.get("again"):
                        again = again or frame.received_at
                    elif frame.command_id != newest:
                        break
            first = frame.received_at
            taken.append((answered[0] - sent, (again or first) - sent, first - sent))
    return taken


def cost(report: Report, *, quick: bool) -> None:
    """Turns of the model with `Saves` and without."""
    seconds, turns = (3.0, 2) if quick else (8.0, 5)
    costs: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(turns):
        for saves, all_ in costs.items():
            with server(0.0, SIZE, work=COMPUTES, saves=saves) as (pid, port):
                resting, busy, frames = processor_of(pid, port, seconds)
                all_.append((busy - resting * seconds) / frames)
    ratio = median(own / other for own, other in zip(costs[True], costs[False], strict=True))
    report.table(
        f"server's processor time a step with a world of {WINDOW} bytes, ms, {turns} turns of {seconds:g} s",
        ["", "median", "least", "most", "ratio"],
        [
            [name, *(1000 * f(costs[saves]) for f in (median, min, max)), ratio if saves else 1.0]
            for name, saves in (("without Saves", False), ("with a moment after each step", True))
        ],
    )
    report.bar("a step with its moment, of one without", ratio, COST, "x")
