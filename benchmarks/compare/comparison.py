"""The same work on every system, in turns, and what came of it beside each other."""

from __future__ import annotations

import re
import time
import urllib.request
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.compare.records import Commands, Steady, commands, steady
from benchmarks.compare.systems import (
    FAST_RTC,
    FAST_RTC_THREAD,
    FLOOR,
    RUNTIME,
    TRIO,
    WRITES,
    Server,
    System,
    Workload,
    play,
    serve,
)
from benchmarks.report import Report

VGA, HD = (640, 480), (1280, 720)
WORKLOADS = {
    one.name: one
    for one in (
        Workload("480p", *VGA),
        Workload("480p, batch 4", *VGA, batch=4),
        Workload("480p, batch 12", *VGA, batch=12),
        Workload("720p", *HD),
        Workload("720p, batch 4", *HD, batch=4),
        Workload("720p, batch 12", *HD, batch=12),
        Workload("480p, fps = 30", *VGA, rate=0, fps=30),
        Workload("720p, fps = 30", *HD, rate=0, fps=30),
        Workload("480p, fastest", *VGA, rate=0),
        Workload("480p, batch 12, fastest", *VGA, batch=12, rate=0),
        Workload("720p, fastest", *HD, rate=0),
    )
}
BOTH = (TRIO, RUNTIME)
EVERYONE = (*BOTH, FAST_RTC, FAST_RTC_THREAD, FLOOR, WRITES)
#: who takes part where; elsewhere it is the two
PARTS = {
    "480p": EVERYONE,
    "720p": (*BOTH, FAST_RTC, FLOOR),
    "480p, batch 12": (*BOTH, FAST_RTC),
    "480p, fastest": (*BOTH, FAST_RTC_THREAD),
}
QUICK = ("480p", "480p, fps = 30")


@dataclass
class Turn:
    """One session on a fresh server."""

    start: float
    connect: float
    first_frame: float
    close: float
    steady: Steady
    commands: Commands
    #: from the begin of leaving to the first picture of the same client's next session; None where it was not tried
    again: float | None
    psnr: float
    codec: str
    #: frames drawn that neither were sent nor are in a counter of drops; None where there are no such counters
    uncounted: int | None


Turns = dict[str, dict[str, list[Turn]]]


def take_turns(names: list[str], repetitions: int, seconds: float, number: int) -> Turns:
    """Sessions by workload and system, A B A B."""
    turns: Turns = {name: {system.name: [] for system in PARTS.get(name, BOTH)} for name in names}
    for repetition in range(repetitions):
        for name in names:
            for system in PARTS.get(name, BOTH):
                workload = WORKLOADS[name]
                turn = _turn(system, workload, seconds, number, repetition)
                turns[name][system.name].append(turn)
                print(f"  {repetition + 1}: {name}: {system.name}: {turn.steady.fps:.1f} fps", flush=True)
    return turns


def _turn(system: System, workload: Workload, seconds: float, number: int, seed: int) -> Turn:
    step = workload.batch / (workload.rate or workload.fps or 30)
    with serve(system, workload) as server:
        session = play(
            server, workload, "--warm-up", "2.5", "--steady", str(seconds), "--commands", str(number), "--step", str(step),
            "--seed", str(seed), *(["--again"] if system in BOTH else []),
        )  # fmt: skip
        uncounted = _uncounted(server) if system is TRIO else None
    seen, commanded = steady(session), commands(session)
    if system is WRITES:  # what it sends was drawn long ago, and comes again
        seen.frames = seen.generated = sum(session["from"] <= at < session["until"] for at, *_ in session["frames"])
        seen.ages.clear()
        commanded = Commands()
    return Turn(
        server.start, session["connect"], session["first_frame"], session["close"], seen, commanded,
        session.get("again"),
        median(session["psnr"]) if session["psnr"] else float("nan"), session["after"]["codec"], uncounted,
    )  # fmt: skip


def _uncounted(server: Server) -> int:
    """Once both clients have left: frames drawn, less those sent and those counted as dropped.

    The model prints what it has drawn in `@disconnected`. What it had queued is dropped, and counted, after that.
    """
    until = time.monotonic() + 10
    while (said := server.log.read_text()).count(" has left: ") < 2:
        if time.monotonic() > until:
            raise RuntimeError(f"the sessions did not end: {said[-2000:]}")
        time.sleep(0.05)
    drawn = re.findall(r"^drawn (\d+)", said, re.MULTILINE)  # the log may go on in the same line
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        metrics = answer.read().decode()
    counted = re.findall(r"^reactor_frames_(?:sent_total|dropped_total\{.*\}) (\S+)$", metrics, re.MULTILINE)
    return int(drawn[-1]) - round(sum(float(value) for value in counted))


# ---- tables ----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "", "fps", "gap p50", "p95", "p99", "std", "freezes", "age p50", "p95", "command p50", "p95", "ack p50",
    "beyond step", "CPU/frame", "RSS MiB", "kbit/s", "PSNR", "missing", "uncounted", "frames", "commands",
)  # fmt: skip


def tell(report: Report, turns: Turns) -> None:
    """A table for each workload: medians of the runs' own values, sums for what is counted."""
    for name, systems in turns.items():
        rows = [[system, *_row(runs)] for system, runs in systems.items()]
        count = max(len(runs) for runs in systems.values())
        report.table(f"{name}: ms unless said otherwise, median of {count} runs' own values", COLUMNS, rows)
    rows = [
        [name, system, *_ends(runs)] for name, systems in turns.items() for system, runs in systems.items()
    ]
    report.table(
        "the ends of a session, ms: connected, first picture with the first step, disconnected; from leaving "
        "to the first picture of the next session",
        ["", "", "connect", "first picture", "most", "close", "again", "most", "n"], rows,
    )  # fmt: skip
    codecs = {(system, run.codec) for systems in turns.values() for system, runs in systems.items() for run in runs}
    report.note("codecs: " + ", ".join(f"{system}: {codec}" for system, codec in sorted(codecs)))


def _ends(runs: list[Turn]) -> list[object]:
    firsts, again = [1000 * run.first_frame for run in runs], [1000 * run.again for run in runs if run.again is not None]
    return [
        1000 * median(run.connect for run in runs), median(firsts), max(firsts), 1000 * median(run.close for run in runs),
        median(again) if again else "", max(again) if again else "", len(runs),
    ]  # fmt: skip


def _row(runs: list[Turn]) -> list[object]:
    def middle(pick: list[float]) -> float:
        return float(np.nanmedian(pick)) if pick else float("nan")

    def ms(lists: list[list[float]], q: float = 50) -> float:
        return middle([1000 * float(np.percentile(values, q)) for values in lists if values])

    gaps, ages = [run.steady.gaps for run in runs], [run.steady.ages for run in runs]
    pictures = [run.commands.pictures for run in runs]
    uncounted = [run.uncounted for run in runs if run.uncounted is not None]
    return [
        middle([run.steady.fps for run in runs]), ms(gaps), ms(gaps, 95), ms(gaps, 99),
        middle([1000 * run.steady.deviation for run in runs]), sum(run.steady.freezes for run in runs),
        ms(ages), ms(ages, 95), ms(pictures), ms(pictures, 95), ms([run.commands.acks for run in runs]),
        ms([run.commands.beyond_step for run in runs]),
        middle([1000 * run.steady.cpu / run.steady.frames for run in runs]), middle([run.steady.resident for run in runs]),
        middle([run.steady.bits_per_second / 1000 for run in runs]), middle([run.psnr for run in runs]),
        sum(run.steady.missing for run in runs), sum(uncounted) if uncounted else "",
        sum(run.steady.frames for run in runs), sum(len(values) for values in pictures),
    ]  # fmt: skip
