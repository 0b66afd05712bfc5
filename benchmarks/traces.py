"""Pacing quality in virtual time: traces of step times through our pacer and through the plain rules that peers use.

Ours is the real code: a session of the test kit with a model whose steps take the trace's times. Synthetic traces are a
shape (steady, jittery, a stall ...) at a natural rate of 30 fps with none declared, and of 45 and 24 fps with 30 declared,
one, four and twelve frames a step; recorded ones are steps of real models (`record_trace`). No rule can be best in all: who
shows at once has no delay and all the jitter. So the bar is that no rule is better than ours in jitter, freezes or delay
without being worse in another; what is paid for what stands in the tables.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import trio
import trio.testing

from benchmarks.pacing_rules import (
    AXES,
    TAILS,
    Played,
    Rule,
    Trace,
    at_once,
    comparable,
    dominates,
    fixed,
    last_step,
    scores,
    smoothed,
)
from benchmarks.report import Report
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

BATCHES = (1, 4, 12)
BETWEEN = "recorded, and 1.5 ms between two steps"
DATA = Path(__file__).parent / "traces_data"
RULES: dict[str, Rule] = {
    "fixed, 10": fixed(10),
    "fixed, 2": fixed(2),
    "last step, 10": last_step(10),
    "smoothed, 10": smoothed(10),
    "at once": at_once,
}


# ---- traces -----------------------------------------------------------------------------------------------------------


def shapes(steps: int, dice: random.Random) -> dict[str, list[float]]:
    """Step times relative to the usual one."""
    middle = steps // 2

    def noise(spread: float) -> list[float]:
        return [dice.lognormvariate(0.0, spread) for _ in range(steps)]

    def scaled(begin: int, end: int, by: float) -> list[float]:
        return [part * (by if begin <= n < end else 1.0) for n, part in enumerate(noise(0.03))]

    return {
        "steady": [1.0] * steps,
        "jittery": noise(0.15),
        "very jittery": noise(0.4),
        "bursty": [part * (0.75 if n % 8 else 2.75) for n, part in enumerate(noise(0.03))],
        "stall": scaled(middle, middle + 1, 20.0),
        "slow-down": scaled(middle, steps, 1.6),
        "speed-up": scaled(middle, steps, 0.6),
        "warm-up": [60.0, 3.0, 2.0, 1.5, 1.2, *noise(0.03)[5:]],
    }


def recorded(name: str) -> list[float]:
    """Seconds of steps, as `record_trace` wrote them."""
    seconds: list[float] = json.loads((DATA / f"{name}.json").read_text())["seconds"]
    return seconds


def traces(frames: int) -> Iterator[tuple[str, Trace]]:
    """Groups and traces, of about `frames` frames each."""
    dice = random.Random(5)
    for batch in BATCHES:
        for label, fps, usual in (("no fps", None, 1 / 30), ("fps 30, faster", 30, 1 / 45), ("fps 30, slower", 30, 1 / 24)):
            for shape, relative in shapes(max(frames // batch, 20), dice).items():
                costs = [round(usual * batch * part, 6) for part in relative]
                yield f"{label}, batch {batch}", Trace(shape, costs, batch, fps)
    for name, batch in (("sleep", 1), ("sleep12", 12), ("conv", 1), ("conv2", 1), ("game", 1)):
        for fps in (None, 30):
            yield "recorded", Trace(f"{name}{f', fps {fps}' if fps else ''}", recorded(name)[:frames], batch, fps)
    for name, batch in (("sleep", 1), ("sleep12", 12), ("conv", 1)):
        yield BETWEEN, Trace(name, recorded(name)[:frames], batch, between=0.0015)


# ---- our pacer --------------------------------------------------------------------------------------------------------


class Picture(Output):
    main: Video


class Model(ReactorPipeline):
    """Notes when each step begins."""

    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.picture = np.zeros((config["batch"], 2, 2, 3), np.uint8)
        self.begins: list[float] = []

    def inference(self) -> Iterator[Picture]:
        while True:
            self.begins.append(trio.current_time())
            yield Picture(main=self.picture)


def ours(trace: Trace) -> Played:
    """The trace through a session of the test kit."""
    return trio.run(_ours, trace, clock=trio.testing.MockClock(autojump_threshold=0))


async def _ours(trace: Trace) -> Played:
    settings = {} if trace.fps is None else {"fps": trace.fps}
    async with open_server(Model, config={"batch": trace.batch}, step_cost=trace.costs, **settings) as server:
        if trace.between:
            time = server._host.time
            settle = time.settle

            async def settle_and_work(rested: bool) -> None:
                await settle(rested)
                if server.model.begins:
                    await trio.sleep(trace.between)

            time.settle = settle_and_work  # type: ignore[method-assign]
        async with server.connect() as client:
            frames = await client.take(len(trace.costs) * trace.batch)
        begins = server.model.begins
    start = frames[0].pts - trace.costs[0]
    began = [begins[frame.step] - begins[0] for frame in frames]
    ready = [at + trace.costs[frame.step] for at, frame in zip(began, frames, strict=True)]
    return Played(began, ready, [frame.pts - start for frame in frames])


# ---- the scoreboard ---------------------------------------------------------------------------------------------------


def scoreboard(trace: Trace) -> dict[str, dict[str, float]]:
    """Scores by rule, ours first."""
    return {"ours": scores(trace, ours(trace)), **{name: scores(trace, rule(trace)) for name, rule in RULES.items()}}


def run(report: Report, *, quick: bool) -> None:
    """Every trace through every rule."""
    boards: list[tuple[str, Trace, dict[str, dict[str, float]]]] = []
    for group, members in groupby(traces(150 if quick else 600), lambda entry: entry[0]):
        board = [(group, trace, scoreboard(trace)) for _, trace in members]
        report.table(
            f"{group}, ms",
            ["", "rule", *board[0][2]["ours"]],
            [[trace.name, rule, *row.values()] for _, trace, rows in board for rule, row in rows.items()],
        )
        boards += board
    _compare(report, boards, tails=not quick)
    for group, trace, rows in boards:
        if group == BETWEEN and trace.name == "sleep":
            ratio = rows["ours"]["gap sd"] / rows["last step, 10"]["gap sd"]
            report.bar(f"{trace.name}, {group}: gap sd to that of the last step's rate", ratio, 0.3, "times")


def _compare(report: Report, boards: list[tuple[str, Trace, dict[str, dict[str, float]]]], *, tails: bool) -> None:
    """Ours beside each rule that kept to the declared rate."""
    table, beaten = [], {AXES: 0, TAILS: 0}
    for rule in RULES:
        pairs = [(rows["ours"], rows[rule]) for _, trace, rows in boards if comparable(trace, rows[rule])]
        worse = {axes: sum(dominates(other, own, axes) for own, other in pairs) for axes in beaten}
        for axes, count in worse.items():
            beaten[axes] += count
        table.append(
            [
                rule, len(pairs), sum(dominates(own, other) for own, other in pairs), *worse.values(),
                median(other["gap sd"] - own["gap sd"] for own, other in pairs),
                sum(other["freezes"] - own["freezes"] for own, other in pairs),
                median(other["delay p50"] - own["delay p50"] for own, other in pairs),
                median(other["delay p95"] - own["delay p95"] for own, other in pairs),
            ]
        )  # fmt: skip
    report.table(
        f"rules beside ours, of {len(boards)} traces those in which they keep to the declared rate; more of theirs, ms",
        ["rule", "traces", "ours better", "better", "in tails", "gap sd", "freezes", "delay p50", "delay p95"],
        table,
    )
    report.note(f"better: in one of {', '.join(AXES)} without being worse in another; tails: {', '.join(TAILS)}")
    report.bar("rules better than ours, over all traces", beaten[AXES], 0, "traces")
    if tails:  # of a few steps there are none
        report.bar("rules better than ours in the tails", beaten[TAILS], 0, "traces")
