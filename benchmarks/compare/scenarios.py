"""What is not a steady stream: starting, resting, a killed client, a slow one, a second one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from statistics import median
from typing import Any

from benchmarks.compare.comparison import BOTH, WORKLOADS
from benchmarks.compare.environments import OURS, OURS_BASE, PEER, environment_of
from benchmarks.compare.records import steady
from benchmarks.compare.systems import RUNTIME, TRIO, TRIO_BASE, Server, System, Workload, play, serve, watching
from benchmarks.report import Report
from benchmarks.startup import TOOLS, imported, resident, site_packages_size

WORKLOAD = WORKLOADS["480p"]
#: a body that takes little memory
SMALL = Workload("small", 320, 240)
IMPORTS = {
    "reactor-trio": (OURS_BASE, "import reactor_trio"),
    "reactor-trio, its server": (OURS_BASE, "import reactor_trio, reactor_trio.cli.run_command"),
    "reactor-runtime": (PEER, "import reactor_runtime"),
    "reactor-runtime, its server": (PEER, "import reactor_runtime.serve, reactor_webrtc"),
    "numpy": (PEER, "import numpy"),
    "nothing": (PEER, "pass"),
}
#: what an environment has for itself, and the peer's client, which is no part of its runtime
NOT_COUNTED = (*TOOLS, "reactor_sdk")


def starts(report: Report, repetitions: int) -> None:
    """Process start to the first session taken, resident memory at rest, import times, installed sizes."""
    took: dict[str, list[float]] = {}
    rest: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    for _ in range(repetitions):
        for system in (TRIO_BASE, TRIO, RUNTIME):
            with serve(system, SMALL, system.accepts) as server:
                took.setdefault(system.name, []).append(server.start)
                time.sleep(2.0)
                rest.setdefault(system.name, []).append(resident(server.process.pid).rss)
                if system is not TRIO_BASE:  # its client has no decoder for what this one would be sent
                    play(server, SMALL, "--warm-up", "1", "--steady", "1", "--commands", "0")
                    time.sleep(1.0)
                    after.setdefault(system.name, []).append(resident(server.process.pid).rss)
    rows = [
        [name, len(took[name]), *(1000 * f(took[name]) for f in (median, min, max)), median(rest[name]),
         median(after[name]) if name in after else ""] for name in took
    ]  # fmt: skip
    report.table(
        "start to the first session taken, and rest",
        ["", "n", "start ms", "least", "most", "RSS at rest, MiB", "after a session"], rows,
    )  # fmt: skip
    imports: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(repetitions):
        for name, (environment, code) in IMPORTS.items():
            imports[name].append(1000 * imported(str(environment_of(environment)), code, os.environ))
    report.table(
        "import, ms of the whole process", ["", "n", "median", "least", "most"],
        [[name, len(values), median(values), min(values), max(values)] for name, values in imports.items()],
    )  # fmt: skip
    sizes = {name: site_packages_size(str(environment_of(name)), NOT_COUNTED) for name in (OURS_BASE, OURS, PEER)}
    report.table("installed, MiB", ["", "site-packages"], [[name, size] for name, size in sizes.items()])
    ours, peer = TRIO_BASE.name, RUNTIME.name
    report.bar("process start to a session, base install", _ratio(took, ours, peer), 0.5, "times")
    report.bar("process start to a session, with the video extra", _ratio(took, TRIO.name, peer), 0.5, "times")
    report.bar("resident memory at rest, base install", _ratio(rest, ours, peer), 0.5, "times")
    report.bar("resident memory at rest, with the video extra", _ratio(rest, TRIO.name, peer), 0.5, "times")
    report.bar("size of the base install", sizes[OURS_BASE] / sizes[PEER], 0.5, "times")


def _ratio(figures: dict[str, list[float]], ours: str, other: str) -> float:
    return median(a / b for a, b in zip(figures[ours], figures[other], strict=True))


# ---- clients ---------------------------------------------------------------------------------------------------------


def killed(report: Report, repetitions: int) -> None:
    """SIGKILL in mid-stream: until the next client is accepted, and until its first picture."""
    waits: dict[str, list[float]] = {}
    pictures: dict[str, list[float]] = {}
    for system, times in ((TRIO, repetitions), (RUNTIME, 1)):
        for _ in range(times):
            with serve(system, WORKLOAD) as server:
                with watching(server, WORKLOAD, "--steady", "600", "--commands", "0") as client:
                    _wait_for_playing(client)
                    time.sleep(2.0)
                    client.kill()
                    client.wait()
                    died = time.monotonic()
                again = play(server, WORKLOAD, "--rejoin")
                waits.setdefault(system.name, []).append(again["accepted"] - max(died, again["began"]))
                pictures.setdefault(system.name, []).append(again["first_frame"] - max(died, again["began"]))
    report.table(
        "client killed, s until the next is served",
        ["", "n", "accepted", "most", "first picture", "most"],
        [[name, len(waits[name]), median(waits[name]), max(waits[name]), median(pictures[name]), max(pictures[name])]
         for name in waits],
    )  # fmt: skip
    ratio = median(waits[TRIO.name]) / median(waits[RUNTIME.name])
    report.bar("client killed, until the next is accepted", ratio, 0.05, "times")


def slow(report: Report, seconds: float) -> None:
    """A client whose program takes 200 ms for each frame."""
    rows = []
    for system in BOTH:
        with serve(system, WORKLOAD) as server:
            seen = steady(play(server, WORKLOAD, "--pause", "0.2", "--steady", str(seconds), "--commands", "0"))
        made = seen.generated / (sum(seen.gaps) or 1)
        rows.append([system.name, seen.fps, made, 1000 * median(seen.ages), 1000 * seen.cpu / seen.generated, seen.resident])
    report.table(
        "a program that takes 200 ms for a frame",
        ["", "frames it takes/s", "frames made/s", "age p50, ms", "CPU ms/frame made", "RSS MiB"], rows,
    )  # fmt: skip


def second(report: Report, seconds: float) -> None:
    """Another client joins: ours as a viewer, the peer's by adopting the session."""
    rows = []
    for system in BOTH:
        with serve(system, WORKLOAD) as server:
            rows.append([system.name, *_two(system, server, seconds)])
    report.table(
        "a second client of the same session",
        ["", "its first picture, ms", "its fps", "fps of the first meanwhile", "CPU ms/frame delivered"], rows,
    )  # fmt: skip


def _two(system: System, server: Server, seconds: float) -> list[Any]:
    with watching(server, WORKLOAD, "--warm-up", "0", "--steady", str(seconds + 12), "--commands", "0") as first:
        _wait_for_playing(first)
        time.sleep(3.0)
        joined = play(server, WORKLOAD, "--second", "--warm-up", "2", "--steady", str(seconds), "--commands", "0")
        out, _ = first.communicate(timeout=seconds + 60)
    seen = json.loads(out.splitlines()[-1])
    theirs = steady(joined)
    ours = steady(seen | {"from": joined["from"], "until": joined["until"]})
    return [1000 * joined["first_frame"], theirs.fps, ours.fps, 1000 * theirs.cpu / (theirs.frames + ours.frames)]


def _wait_for_playing(client: subprocess.Popen[str]) -> None:
    assert client.stdout is not None
    if client.stdout.readline().strip() != "playing":
        raise RuntimeError(f"the client did not play: {client.stderr.read() if client.stderr else ''}")
