"""What replicas behind a gate cost beside the server alone, and how long clients are without one that dies.

One application of two replicas on a Ray of its own on this machine (`reactor run --replicas 2`, as `tests/replicas` starts
it), and for the frames `reactor run` with the same model beside it, both up all the time.

Fixed cost: memory and processor time of all its processes while nobody is there.

Places: from opening the connection until a place is told, at a gate where nobody else asks; each place is taken by a client
that leaves at once.

Frames: each carries in its pixels the time at which it was made, on the clock that the client reads, so what is compared is
its age at the client. Runs alternate, and what counts is the median of the differences of pairs. The age has waits in it by
which the pacer makes up for steps that overrun (`pacing/step_margin.py`, `playout_smoother.py`), and on a busy machine
they differ from run to run by more than what is sought; the frames that waited least, 5 of 100, show the way alone.

Failures: a client watches at each replica, and one of them loses its own. When is it told, when has one that then stands in
line a session, and does the other one go on?
"""

from __future__ import annotations

import json
import os
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from math import comb
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from benchmarks.peers import ROOT, Application, Gone, RawClient, ask, descendants, health, reactor_run, running, title
from benchmarks.report import SPREAD, Report, spread
from benchmarks.startup import Memory, resident

FPS = 60
#: seconds of a step that takes longer than the declared rate allows
SLOW = 1 / 30
#: seconds that the model takes to load
LOAD = 0.5
VIDEO = "/ws?video=raw"
RUNTIME = {"limits": {"ping_interval": 3600, "silence": 7200, "handshakes_per_minute": 0}}

MODEL = f"""
import struct, sys, time
sys.path.insert(0, {str(ROOT / "tests" / "replicas" / "model")!r})
import numpy as np
from crashing import Crashing, Picture
from reactor_trio import InputField, InputState

class State(InputState):
    step: float = InputField(default=0.0, ge=0, le=1)

class Model(Crashing):
    output: Picture
    state: State
    fps = {FPS}
    def load(self, config):
        time.sleep({LOAD})
        self.version = 1
    def inference(self):
        while True:
            time.sleep(self.state.step)
            frame = np.full((120, 160, 3), 127, np.uint8)
            frame.reshape(-1)[:8] = np.frombuffer(struct.pack("<d", time.monotonic()), np.uint8)
            yield Picture(picture=frame)
"""


def run(report: Report, *, quick: bool) -> None:
    """All four, on one application."""
    with application() as app:
        for _ in range(4):  # both replicas have served before anything is measured
            with session(app), session(app):
                pass
        resting(report, app, quick=quick)
        places(report, app, quick=quick)
        frames(report, app, quick=quick)
        failures(report, app, quick=quick)


# ---- fixed cost -------------------------------------------------------------------------------------------------------


def resting(report: Report, app: Application, *, quick: bool) -> None:
    """All processes by kind, and the server alone."""
    seconds = 5.0 if quick else 20.0
    wait_empty(app)
    kinds: dict[str, list[int]] = {}
    for pid in [app.launcher.pid, *descendants(app.launcher.pid)]:
        kinds.setdefault("launcher" if pid == app.launcher.pid else _kind(title(pid)), []).append(pid)
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL, **RUNTIME) as server:
        kinds["server alone"] = [server.process.pid]
        time.sleep(2)
        before = {pid: _busy(pid) for pids in kinds.values() for pid in pids}
        time.sleep(seconds)
        spent = {kind: sum(_busy(pid) - before[pid] for pid in pids) / seconds for kind, pids in kinds.items()}
        held = {kind: [memory for pid in pids if (memory := _resident(pid))] for kind, pids in kinds.items()}
    alone = kinds.pop("server alone"), spent.pop("server alone"), held.pop("server alone")
    every = [*chain(*kinds.values())], sum(spent.values()), [*chain(*held.values())]
    rows = {**{kind: (kinds[kind], spent[kind], held[kind]) for kind in kinds}, "all of it": every, "server alone": alone}
    report.table(
        f"while nobody is there, {seconds:g} s",
        ["", "processes", "resident MiB", "with shares (PSS) MiB", "only theirs MiB", "processor, % of a core"],
        [
            [kind, len(pids), *(sum(getattr(one, what) for one in memory) for what in ("rss", "pss", "uss")), 100 * busy]
            for kind, (pids, busy, memory) in rows.items()
        ],
    )  # fmt: skip


def _kind(line: str) -> str:
    for sign, kind in (
        ("reactor:replica", "replicas"), ("reactor:gate", "gate"), ("ServeController", "Serve's controller"),
        ("gcs_server", "Ray: gcs_server"), ("raylet/raylet", "Ray: raylet"), ("ray::IDLE", "Ray: idle workers"),
    ):  # fmt: skip
        if sign in line:
            return kind
    return "Ray: monitors, agents and others"


def _busy(pid: int) -> float:
    """Processor seconds of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> Memory | None:
    with suppress(OSError, KeyError):
        return resident(pid)
    return None


# ---- places -----------------------------------------------------------------------------------------------------------


def places(report: Report, app: Application, *, quick: bool) -> None:
    """Each way in turns, with what a request takes that wants no place."""
    times = 10 if quick else 100
    ways: dict[str, Callable[[Application], dict[str, str] | None]] = {
        "POST /v1/sessions": post, "WS /v1/queue, until admitted": stand_in_line, "GET /health, for comparison": _look,
    }  # fmt: skip
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(times):
        for way, ask_for in ways.items():
            wait_empty(app)
            began = time.monotonic()
            place = ask_for(app)
            taken[way].append(time.monotonic() - began)
            if place is not None:
                connected(place).__exit__()
    report.table(
        "from opening the connection to a place, ms", ["", *SPREAD], [[way, *spread(taken[way])] for way in ways]
    )
    for way in list(ways)[:2]:
        report.bar(f"{way}: median", 1000 * median(taken[way]), 30, "ms")


def post(app: Application) -> dict[str, str]:
    """A place without waiting. Raises AssertionError if there is none."""
    status, _, body = ask(
        gate_port(app), b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    assert status == 201, body
    place: dict[str, str] = json.loads(body)
    return place


def stand_in_line(app: Application) -> dict[str, str]:
    """A place, as soon as there is one."""
    with RawClient(gate_port(app), "/v1/queue", pongs=True) as client:
        place: dict[str, str] = client.text("reactor.admitted")["data"]
        return place


def _look(app: Application) -> None:
    health(gate_port(app))


# ---- frames -----------------------------------------------------------------------------------------------------------


def frames(report: Report, app: Application, *, quick: bool) -> None:
    """Pairs of runs for each way of making frames, in turns which is first."""
    pairs, seconds = (3, 2.0) if quick else (10, 4.0)
    steps = {"slow steps": SLOW, "fast steps": 0.0}
    ages: dict[tuple[str, str], list[list[float]]] = {(how, place): [] for how in steps for place in ("alone", "replica")}
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL, **RUNTIME) as server:
        for number in range(pairs):
            for how, place in sorted(ages, reverse=bool(number % 2)):
                with session(app) if place == "replica" else RawClient(server.port, VIDEO, pongs=True) as client:
                    ages[how, place].append(ages_at(client, steps[how], seconds))
    report.table(
        f"a frame's age at the client, ms (raw 160x120, {pairs} runs of {seconds:g} s each)", ["", *SPREAD],
        [[f"{how}: {place}", *spread([age for run in runs for age in run])] for (how, place), runs in ages.items()],
    )  # fmt: skip
    differences = {
        f"{how}, {what}": [1000 * (figure(own) - figure(other))
                           for own, other in zip(ages[how, "replica"], ages[how, "alone"], strict=True)]
        for what, figure in (("median", median), ("5 of 100", _least)) for how in steps
    }  # fmt: skip
    report.table(
        f"a replica's frames are older by, ms ({pairs} pairs)", ["", "median of pairs", "from", "to", "sure, %"],
        [[what, median(values), *median_interval(values)] for what, values in differences.items()],
    )  # fmt: skip
    report.data["differences, ms"] = differences
    for what, values in differences.items():
        report.bar(f"added age of a frame, {what}", median(values), 0.3, "ms")


def _least(ages: Sequence[float]) -> float:
    return sorted(ages)[len(ages) // 20]


def ages_at(client: RawClient, step: float, seconds: float) -> list[float]:
    """Of the frames of so many seconds, the first second of a session left out."""
    client.say("set_step", 1, step=step)
    client.answer(1)
    begin, found = time.monotonic() + 1.0, []
    while (now := time.monotonic()) < begin + seconds:
        (made,) = struct.unpack("<d", bytes(client.picture().payload[:8]))
        arrived = time.monotonic()
        if now >= begin:
            found.append(arrived - made)
    return found


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Around the median, by the sign test: bounds, and how sure they are in percent, 95 at least with six values or more."""
    ordered, count = sorted(values), len(values)

    def beyond(rank: int) -> float:
        return 2 * sum(comb(count, k) for k in range(rank + 1)) / 2**count

    rank = max((rank for rank in range(count // 2) if beyond(rank) <= 0.05), default=0)
    return ordered[rank], ordered[count - 1 - rank], 100 * max(1 - beyond(rank), 0.0)


# ---- failures ---------------------------------------------------------------------------------------------------------


def failures(report: Report, app: Application, *, quick: bool) -> None:
    """Killed again and again, stopped, and hung."""
    times = 2 if quick else 10
    told: dict[str, list[float]] = {"killed": [], "stopped": [], "its loop hangs": []}
    back: dict[str, list[float]] = {how: [] for how in told}
    gaps: list[float] = []
    with session(app) as bystander:
        watching = threading.Thread(target=_watch, args=(bystander, gaps), daemon=True)
        watching.start()
        for how in [*["killed"] * times, "stopped", "its loop hangs"]:
            with session(app) as client:
                client.say("who", 1)
                process = client.answer(1)["data"]["reply"]["process"]
                for _ in range(15):
                    client.picture()
                began = time.monotonic()
                if how == "its loop hangs":
                    client.say("hang")
                else:
                    os.kill(process, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                client.gone()
                told[how].append(time.monotonic() - began)
            with session(app) as client:
                back[how].append(time.monotonic() - began)
                client.picture()
        alive = watching.is_alive()
        bystander.send(struct.pack("!BB4xH", 0x88, 0x82, 1000))
        watching.join()
    report.table(
        "one of two replicas fails: seconds until its client is told, its socket being closed", ["", *SPREAD],
        [[how, *spread(told[how], 1.0)] for how in told],
    )  # fmt: skip
    report.table(
        f"and until the next client has its session, beyond the load of {LOAD:g} s", ["", *SPREAD],
        [[how, *spread([taken - LOAD for taken in back[how]], 1.0)] for how in back],
    )  # fmt: skip
    report.note(f"the other replica's client had no frame for at most {max(gaps):.2f} s")
    report.bar("killed: told, worst", max(told["killed"]), 1, "s")
    report.bar("killed: next session beyond the load, worst", max(back["killed"]) - LOAD, 6, "s")
    report.bar("the other replica's client was there to the end", float(alive), 1, "", least=True)


def _watch(client: RawClient, gaps: list[float]) -> None:
    last = time.monotonic()
    with suppress(Gone):
        while True:
            client.picture()
            now = time.monotonic()
            gaps.append(now - last)
            last = now


# ---- the application --------------------------------------------------------------------------------------------------


@contextmanager
def application() -> Iterator[Application]:
    """Two replicas of the model and their gate."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pipeline.py").write_text(MODEL)
        Path(folder, "reactor.yaml").write_text(json.dumps({"model": "pipeline:Model", "name": "timed"}))
        with running(replicas=2, path=folder, runtime=RUNTIME) as app:
            yield app


@contextmanager
def session(app: Application) -> Iterator[RawClient]:
    """A client in its session, with whoever was first in line before it."""
    with connected(stand_in_line(app)) as client:
        yield client


def connected(place: dict[str, str]) -> RawClient:
    """A client whose session at its place has begun."""
    client = RawClient(urlsplit(place["url"]).port or 80, f"{VIDEO}&token={place['ticket']}", pongs=True)
    client.text("reactor.welcome")
    return client


def gate_port(app: Application) -> int:
    """Where it listens."""
    return urlsplit(app.url).port or 80


def wait_empty(app: Application) -> None:
    """Return when no place is taken."""
    until = time.monotonic() + 60
    while (seen := health(gate_port(app))[1])["sessions"]:
        assert time.monotonic() < until, seen
        time.sleep(0.01)
