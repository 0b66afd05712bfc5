"""What we want of each figure, as a multiple of the peer's in the same run, and whether it is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.compare.comparison import WORKLOADS, Turn, Turns
from benchmarks.compare.systems import FLOOR, RUNTIME, TRIO
from benchmarks.report import Report

Figure = Callable[[Turn], float]


def cpu(turn: Turn) -> float:
    """Processor milliseconds of the server for each frame that the client received."""
    return 1000 * turn.steady.cpu / turn.steady.frames


def age(turn: Turn) -> float:
    """Median ms from the drawing of a frame to the client's program."""
    return 1000 * median(turn.steady.ages)


def picture(turn: Turn) -> float:
    """Median ms from a command to the first frame that shows it."""
    return 1000 * median(turn.commands.pictures)


def beyond(step: float) -> Figure:
    """The same, less what the model itself takes: the rest of the step that ran, which is half a one on average, and a step.

    It is taken off each command, since the few of a run do not hit all parts of a step equally often.
    """
    return lambda turn: 1000 * (median(turn.commands.after_step) - step)


def deviation(turn: Turn) -> float:
    """Standard deviation of the time between two frames, ms."""
    return 1000 * turn.steady.deviation


def rate(turn: Turn) -> float:
    """Frames a second that the client received."""
    return turn.steady.fps


def first_frame(turn: Turn) -> float:
    """From `connect()` to the first frame, the model's first step included, ms."""
    return 1000 * turn.first_frame


def ack(turn: Turn) -> float:
    """Median ms from the end of the step that ran when a command was sent to its ack."""
    return 1000 * median(turn.commands.beyond_step)


@dataclass(frozen=True)
class Goal:
    """`figure` of ours is to be at most `limit` times that of the other, or at least if `least`."""

    what: str
    workload: str
    figure: Figure
    limit: float
    least: bool = False
    other: str = RUNTIME.name


GOALS = (
    Goal("server CPU a frame", "480p", cpu, 0.4),
    Goal("server CPU a frame", "720p", cpu, 0.4),
    Goal("generation to client", "480p", age, 0.25),
    Goal("generation to client", "720p", age, 0.25),
    Goal("command to picture, less 1.5 steps", "480p", beyond(1 / 30), 0.25),
    Goal("command to picture, free-running, fps = 30", "480p, fps = 30", picture, 0.25),
    Goal("deviation of the inter-arrival time", "480p", deviation, 0.3),
    Goal("deviation of the inter-arrival time", "480p, batch 12", deviation, 0.3),
    Goal("connect to first picture", "480p", first_frame, 0.15),
    Goal("maximum rate", "480p, fastest", rate, 3, least=True),
    Goal("maximum rate", "720p, fastest", rate, 3, least=True),
    Goal("server CPU a frame, to that of a bare loop", "480p", cpu, 1.3, other=FLOOR.name),
    Goal("server CPU a frame, to that of a bare loop", "720p", cpu, 1.3, other=FLOOR.name),
)
#: ms that an ack may take beyond the running step
ACK = 2.0


def judge(report: Report, turns: Turns) -> None:
    """A table of all goals whose workloads were run; each is a bar too."""
    rows, judged = [], []
    for goal in GOALS:
        if goal.workload not in turns:
            continue
        ours, others = turns[goal.workload][TRIO.name], turns[goal.workload][goal.other]
        ratios = [goal.figure(a) / goal.figure(b) for a, b in zip(ours, others, strict=True)]
        middle = median(ratios)
        met = middle >= goal.limit if goal.least else middle <= goal.limit
        judged.append((goal, middle))
        rows.append([
            f"{goal.what}: {goal.workload}", median(map(goal.figure, ours)), median(map(goal.figure, others)), goal.other,
            middle, min(ratios), max(ratios), f"{'>=' if goal.least else '<='} {goal.limit:g}", "yes" if met else "NO",
        ])  # fmt: skip
    report.table(
        f"goals: ratio of each pair of runs, median of {len(ratios)} pairs",
        ["", "ours", "other", "whose", "ratio", "least", "most", "goal", "met"], rows,
    )  # fmt: skip
    for goal, middle in judged:
        report.bar(f"{goal.what}: {goal.workload}", middle, goal.limit, "times", least=goal.least)
    if "480p" in turns:
        report.bar("ack beyond the running step: 480p", median(map(ack, turns["480p"][TRIO.name])), ACK, "ms")
    lost = sum(turn.uncounted or 0 for systems in turns.values() for turn in systems[TRIO.name])
    report.bar("frames drawn, not sent and in no counter", abs(lost), 0, "frames")


def spreads(turns: Turns) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The pooled distributions, in ms, for whoever draws them: by workload, system and figure."""
    return {
        name: {
            system: {
                "gap": _pooled([run.steady.gaps for run in runs]),
                "age": _pooled([run.steady.ages for run in runs]),
                "command": _pooled([run.commands.pictures for run in runs]),
            }
            for system, runs in turns[name].items()
        }
        for name in WORKLOADS
        if name in turns
    }


def _pooled(lists: list[list[float]]) -> list[float]:
    return [round(float(value), 3) for value in 1000 * np.concatenate(lists or [[]])]
