"""What a step of an app costs beside a yield of a pipeline: the same frame, rendered without a client, in one process.

The frame is so small that only the runtime counts. The ways take turns, and each ratio is that of one turn.
"""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.report import Report
from reactor_trio import InputState, Output, ReactorApp, ReactorPipeline, StepOutcome, Video
from reactor_trio.offline import render
from reactor_trio.offline.open_rendering import run_blocking

#: processor time that an app's step may take, as a multiple of a yield's
MAY_TAKE = 1.05
FRAME = np.zeros((8, 8, 3), np.uint8)
FRAME.flags.writeable = False


class Picture(Output):
    main: Video


class State(InputState):
    level: int = 0


class Plain(ReactorPipeline):
    """A plain generator."""

    state: State

    def inference(self) -> Any:
        while True:
            yield Picture(main=FRAME)


class Awaiting(ReactorPipeline):
    """An async generator."""

    state: State

    async def inference(self) -> Any:
        while True:
            yield Picture(main=FRAME)


class App(ReactorApp):
    """The three methods, each the author's own."""

    state: State

    async def process_input(self) -> int:
        return self.state.level

    def generate(self, level: int) -> Picture:
        return Picture(main=FRAME)

    async def process_output(self, outcome: StepOutcome) -> Any:
        return outcome.to_output()


WAYS = {"plain generator": Plain, "async generator": Awaiting, "app": App}


def run(report: Report, *, quick: bool) -> None:
    """Processor time of each way."""
    steps, turns = (1000, 3) if quick else (6000, 9)
    took: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(turns + 1):
        for name, model in WAYS.items():
            spent = rendering(model, steps)
            if turn:
                took[name].append(spent / steps)
    plain = took["plain generator"]
    ratios = {name: median(own / other for own, other in zip(took[name], plain, strict=True)) for name in WAYS}
    report.table(
        f"processor time a step, us, {turns} turns of {steps} steps",
        ["way", "median", "least", "most", "to a plain generator's"],
        [[name, *(1e6 * f(took[name]) for f in (median, min, max)), ratios[name]] for name in WAYS],
    )
    report.bar("an app's step to a yield of a plain generator", ratios["app"], MAY_TAKE, "times")


def rendering(model: Any, steps: int) -> float:
    """Processor seconds of a rendering of so many steps, without its load."""

    async def taken() -> float:
        async with render(model, frames=steps) as film:
            began = time.process_time()
            async for _ in film:
                pass
            return time.process_time() - began

    gc.collect()
    spent: float = run_blocking(taken)
    return spent
