"""A viewer on a link that gets thin, stalls and recovers: how old its pictures are, and what else it and others notice.

A server process plays a stamped, moving, grainy picture of 640x480 at 30 fps. One client process controls it over a link
that is shaped (`shaping.py`), with 20 ms of delay each way; another one watches over a good link. Both start unshaped. Then
the link is shaped, or stalls for 3 s; after 3 s of adapting the figures are taken; then it is unshaped again.

Age is from the instant at which a picture was due until the client has it decoded. When it was due follows from its
presentation time and from the quickest picture of the viewer with the good link; `made` is from the model's making it, by
the stamp in the picture, which contains the time for which the model works ahead. Each picture's bound is `max_age`, a round
trip and its own transmission at the rate of the link.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import environment, reactor_run
from benchmarks.pictures import clip_model
from benchmarks.report import Report
from benchmarks.shaping import ShapedLink, shaped_link

SIZE = (640, 480)
FPS = 30
MAX_AGE = 0.150
DELAY = 0.020
ADAPTING = 3.0
STALL = 3.0
COMMAND_EVERY = 0.25
#: MiB that the server may grow by: while a link stays as it is, from one half of the measured time to the other; and in all,
#: where a viewer that moves to an encoder of its own opens one, and each thread that encodes keeps what it once needed
GROWTH, ENCODERS = 4.0, 32.0
#: bytes on the wire for each of a packet: Ethernet, IP and TCP heads on full segments
ON_THE_WIRE = 1514 / 1448

MODEL = clip_model(*SIZE, FPS) + """
from benchmarks.pictures import stamped

class State(InputState):
    level: int = InputField(default=0, ge=0, le=100)

class Model(Model):
    state: State

    def inference(self):
        while True:
            for picture in self.clip:
                yield Picture(main_video=stamped(picture))
"""


@dataclass(frozen=True)
class Case:
    """One link: its rate while it is shaped, or None where it stalls instead."""

    name: str
    rate: int | None


CASES = (Case("1 Mbit/s", 1_000_000), Case("300 kbit/s", 300_000), Case("3 s stall", None))


@dataclass
class Seen:
    """What a viewer process saw. Columns of `frames`: time, age by the stamp, pts, seq, bytes, width, height, decoding."""

    codec: str
    frames: np.ndarray
    commands: list[tuple[float, float | None]]
    ended: str | None

    def between(self, begin: float, end: float) -> np.ndarray:
        """The frames of a time."""
        return self.frames[(self.frames[:, 0] >= begin) & (self.frames[:, 0] < end)]


@dataclass
class Run:
    """One case's measurement: what both saw, and the times at which the link changed."""

    case: Case
    thin: Seen
    good: Seen
    shaped_at: float
    measured_from: float
    unshaped_at: float
    ended_at: float
    memory: list[tuple[float, int]] = field(default_factory=list)


def run(report: Report, *, quick: bool, codec: str = "jpeg") -> None:
    """Each link in turn."""
    with shaped_link(DELAY) as link:
        report.note(f"codec {codec}; rate limited by {link.manner}; delay {1000 * DELAY:g} ms each way")
        runs = [_measure(link, case, codec, quick) for case in CASES]
    _report_links(report, runs)
    _report_others(report, runs)


# ---- measuring -------------------------------------------------------------------------------------------------------


def _measure(link: ShapedLink, case: Case, codec: str, quick: bool) -> Run:
    steady, measured, recovering = (4.0, 5.0, 6.0) if quick else (6.0, 15.0, 10.0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(
            reactor_run(folder, MODEL, "--host", link.address, "--port", "0", prefix=link.prefix)
        )
        port = stack.enter_context(link.proxy(server.port))
        thin = stack.enter_context(_viewer(f"ws://127.0.0.1:{port}/ws", codec, "control", link.client_prefix))
        good = stack.enter_context(_viewer(f"ws://{link.address}:{server.port}/ws", codec, "viewer", link.prefix))
        memory: list[tuple[float, int]] = []

        def wait(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(left, 0.5))
                memory.append((time.monotonic(), server.memory()))

        wait(steady)
        shaped_at = time.monotonic()
        if case.rate is not None:
            link.rate(case.rate)
            wait(ADAPTING)
            measured_from = time.monotonic()
            wait(measured)
            link.rate(None)
            unshaped_at = time.monotonic()
            wait(recovering)
        else:
            link.stall()
            wait(STALL)
            link.resume()
            unshaped_at = time.monotonic()
            wait(ADAPTING)
            measured_from = time.monotonic()
            wait(measured)
        ended_at = time.monotonic()
        return Run(case, thin.end(), good.end(), shaped_at, measured_from, unshaped_at, ended_at, memory)


class _Viewer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def end(self) -> Seen:
        """Let it leave, and take what it saw."""
        out, _ = self._process.communicate(timeout=30)
        seen = json.loads(out)
        assert seen["frames"], "the viewer saw nothing"
        frames = np.array(seen["frames"], dtype=float)  # None, an unreadable stamp, becomes nan
        return Seen(seen["codec"], frames, [tuple(entry) for entry in seen["commands"]], seen["ended"])


@contextmanager
def _viewer(url: str, codec: str, role: str, prefix: Any) -> Iterator[_Viewer]:
    command = [*prefix, sys.executable, "-m", "benchmarks.viewer", url, codec, role, str(COMMAND_EVERY)]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready", f"the viewer of {url} did not start"
            yield _Viewer(process)
        finally:
            process.kill()


# ---- figures ---------------------------------------------------------------------------------------------------------


def _ages(run_: Run, frames: np.ndarray) -> np.ndarray:
    """Seconds from due to decoded. The quickest picture over the good link is taken to be no time late."""
    quickest = (run_.good.frames[:, 0] - run_.good.frames[:, 2]).min()
    return frames[:, 0] - frames[:, 2] - quickest


def _ms(values: np.ndarray, q: float) -> float:
    values = values[~np.isnan(values)]
    return float(np.percentile(values, q)) * 1000 if len(values) else float("nan")


def _rate_of(frames: np.ndarray, seconds: float) -> tuple[float, float]:
    """Frames and kilobits per second."""
    return len(frames) / seconds, float(frames[:, 4].sum()) * 8 / seconds / 1000


def _report_links(report: Report, runs: list[Run]) -> None:
    rows, excesses = [], []
    for one in runs:
        end = _measured_until(one)
        before = one.thin.between(one.shaped_at - 2, one.shaped_at)
        frames = one.thin.between(one.measured_from, end)
        bits = 8 * ON_THE_WIRE * frames[:, 4]
        transmission = bits / one.case.rate if one.case.rate is not None else np.zeros(len(frames))
        ages = _ages(one, frames)
        over = _ms(ages - transmission, 95) if len(frames) else float("inf")
        excesses.append((one.case.name, over))
        fps, kbits = _rate_of(frames, end - one.measured_from)
        for name, part, (rate, kbit) in (
            ("before", before, _rate_of(before, 2.0)),
            (one.case.name, frames, (fps, kbits)),
        ):
            unread = int(np.isnan(part[:, 1]).sum())
            age = _ages(one, part)
            bound = 1000 * (MAX_AGE + 2 * DELAY) + (_ms(transmission, 50) if part is frames else 0.0)
            rows.append(
                [name, rate, kbit, _ms(age, 50), _ms(age, 95), _ms(part[:, 1], 50), _ms(part[:, 1], 95), bound, unread]
            )
    report.table(
        "the viewer on the thin link, after 3 s of adapting (ms; bound: with the median picture's transmission)",
        ["link", "fps", "kbit/s", "age p50", "p95", "made p50", "p95", "bound", "unread"], rows,
    )  # fmt: skip
    report.table(
        "its commands, what it was shown, and the way back",
        ["link", "sent", "unanswered", "ack p50", "p95", "max", "gap max", "sizes", "full again s"],
        [[one.case.name, *_commands(one), _gap(one), _sizes(one.thin), _recovery(one)] for one in runs],
    )
    for name, over in excesses:
        report.bar(f"{name}: age less its own transmission, p95", over, 1000 * (MAX_AGE + 2 * DELAY), "ms")
    for one in runs:
        report.bar(f"{one.case.name}: commands without an answer", _commands(one)[1], 0, "")
        report.bar(f"{one.case.name}: until all is back", _recovery(one), 5, "s")


def _commands(one: Run) -> list[Any]:
    """Sent, unanswered, then how long the answers took: of what was sent until a second before the end."""
    sent = [took for at, took in one.thin.commands if at < one.ended_at - 1]
    took = np.array([t for t in sent if t is not None])
    return [len(sent), len(sent) - len(took), _ms(took, 50), _ms(took, 95), _ms(took, 100)]


def _gap(one: Run) -> float:
    """The longest time without a picture, in ms, from just before the change of the link on."""
    return float(np.diff(one.thin.between(one.shaped_at - 0.5, one.ended_at)[:, 0]).max(initial=0)) * 1000


def _sizes(seen: Seen) -> str:
    """The sizes in order."""
    sizes: list[str] = []
    for width, height in seen.frames[:, 5:7].astype(int):
        name = f"{width}x{height}"
        if not sizes or sizes[-1] != name:
            sizes.append(name)
    return " ".join(sizes)


def _recovery(one: Run) -> float:
    """Seconds from the unshaping until the size is full, and the next second has 90 % of the frames and 80 % of the bits
    of before.
    """
    fps, kbits = _rate_of(one.thin.between(one.shaped_at - 2, one.shaped_at), 2.0)
    full = one.thin.frames[:, 5].max()
    for at, width in one.thin.between(one.unshaped_at, one.ended_at - 1)[:, (0, 5)]:
        now_fps, now_kbits = _rate_of(one.thin.between(at, at + 1), 1.0)
        if width == full and now_fps >= 0.9 * fps and now_kbits >= 0.8 * kbits:
            return float(at - one.unshaped_at)
    return float("inf")


def _memory(one: Run) -> tuple[float, ...]:
    """MiB: before, most, at the end; then by how much the second half of the time after adapting had more than the first."""
    begin = min(size for at, size in one.memory if one.shaped_at - 1.5 < at <= one.shaped_at + 0.1)
    after = [size for at, size in one.memory if at > one.shaped_at]
    adapted = [size for at, size in one.memory if one.measured_from < at <= _measured_until(one)]
    half = len(adapted) // 2
    growth = max(adapted[half:]) - max(adapted[:half])
    return begin / 2**20, max(after) / 2**20, after[-1] / 2**20, growth / 2**20


def _measured_until(one: Run) -> float:
    return one.unshaped_at if one.case.rate is not None else one.ended_at


def _report_others(report: Report, runs: list[Run]) -> None:
    rows = []
    for one in runs:
        for name, begin, end in (
            ("before", one.shaped_at - 2, one.shaped_at),
            (one.case.name, one.shaped_at, one.unshaped_at),
        ):
            frames = one.good.between(begin, end)
            fps, kbits = _rate_of(frames, end - begin)
            ages = _ages(one, frames)
            rows.append([name, fps, kbits, _ms(ages, 50), _ms(ages, 95), _ms(ages, 100), _sizes(one.good)])
    report.table(
        "at the same time, the viewer on a good link (ms)",
        ["link of the other", "fps", "kbit/s", "age p50", "p95", "max", "sizes"], rows,
    )  # fmt: skip
    memory = [[one.case.name, *_memory(one)] for one in runs]
    report.table(
        "the server's resident set, MiB; a second encoder is opened when the link changes, and that is no growth",
        ["link", "before", "most", "at the end", "growth once adapted"], memory,
    )  # fmt: skip
    pairs = zip(rows[::2], rows[1::2], strict=True)
    for one, (before, during), (name, begin, _, end, growth) in zip(runs, pairs, memory, strict=True):
        report.bar(f"{name}: frames that the other viewer lacks", 100 * max(0.0, 1 - during[1] / before[1]), 3, "%")
        report.bar(f"{name}: what the other viewer's age p95 grows by", during[4] - before[4], 15, "ms")
        report.bar(f"{name}: growth of the server's memory once it has adapted", growth, GROWTH, "MiB")
        report.bar(f"{name}: what the server's memory grew by in all", end - begin, ENCODERS, "MiB")
        assert one.thin.ended is None, f"the viewer was sent away: {one.thin.ended}"
