"""What serving a viewer costs besides its codec: 1280x720 at 30 fps of a grainy clip, from a server process to a client
process, against conversion and encoder alone with the same frames and settings.

The two take turns in one run. Served: the server's processor time from `/proc`, all its threads, less what it takes while
nobody watches, for each frame that the client received. It contains the model's generator, which yields pictures made
before, pacing, conversion, encoding, and sending. The client decodes nothing. Alone: a process that encodes the clip at the
same rate by the same encoder at the bitrate that a viewer with a good link gets, its whole processor time for each frame.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.peers import cpu_seconds, environment, reactor_run
from benchmarks.pictures import clip, clip_model
from benchmarks.report import Report
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoder, choose_codecs, full_bitrate, open_encoder
from reactor_trio.pacing import Quality

SIZE = (1280, 720)
FPS = 30
CODECS = ("h264", "vp8", "vp9", "av1", "jpeg", "raw")
#: what a viewer may cost at most, as a multiple of its codec alone
BARS = {"h264": 1.25}
#: seconds of a turn that are not counted: the session begins, the encoder settles at its bitrate
WARM_UP = 2.0

MODEL = clip_model(*SIZE, FPS)


@dataclass
class Turn:
    """Processor seconds, frames and bytes of one turn."""

    cpu: float
    frames: int
    size: int

    @property
    def each(self) -> float:
        """Milliseconds of processor time for a frame."""
        return 1000 * self.cpu / self.frames


def run(report: Report, *, quick: bool) -> None:
    """Each codec that this installation has."""
    turns, seconds = (2, 3.0) if quick else (5, 8.0)
    here = choose_codecs(CODECS)
    if missing := [codec for codec in CODECS if codec not in here]:
        report.note(f'not installed: {", ".join(missing)}; pip install "reactor-trio[video]"')
    rows, ratios = [], {}
    for codec in here:
        served, alone, idle = _compare(codec, turns, seconds)
        ours, bare = median(turn.each for turn in served), median(turn.each for turn in alone)
        ratios[codec] = median(s.each / a.each for s, a in zip(served, alone, strict=True))
        frames = sum(turn.frames for turn in served) / len(served) / seconds
        rows.append([codec, frames, _kbits(served), _kbits(alone), ours, bare, ratios[codec], 1000 * idle])
    report.table(
        f"processor time for a frame, ms ({SIZE[0]}x{SIZE[1]} at {FPS} fps, median of {turns} turns of {seconds:g} s)",
        ["codec", "fps", "kbit/s", "alone kbit/s", "served", "alone", "ratio", "idle ms/s"], rows,
    )  # fmt: skip
    for codec, bar in BARS.items():
        if codec in ratios:
            report.bar(f"{codec}: served to alone", ratios[codec], bar, "times")


def _compare(codec: str, turns: int, seconds: float) -> tuple[list[Turn], list[Turn], float]:
    """Turns served and alone, and the server's idle processor seconds for each second."""
    served, alone, idle = [], [], []
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL) as server, _bare(codec) as bare:
        pid = server.process.pid
        for _ in range(turns):
            served.append(_serve(server.port, pid, codec, seconds))
            time.sleep(0.5)  # the session unwinds
            before = cpu_seconds(pid)
            began = time.monotonic()
            alone.append(bare.turn(seconds))
            idle.append((cpu_seconds(pid) - before) / (time.monotonic() - began))
    resting = median(idle)
    for turn in served:
        turn.cpu -= resting * seconds
    return served, alone, resting


def _serve(port: int, pid: int, codec: str, seconds: float) -> Turn:
    command = [
        sys.executable, "-m", "benchmarks.viewer", f"ws://127.0.0.1:{port}/ws", codec, "control", "0", "--count", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline().strip() == "ready", "the client did not start"
            time.sleep(WARM_UP)
            began, cpu = time.monotonic(), cpu_seconds(pid)
            time.sleep(seconds)
            ended, cpu = time.monotonic(), cpu_seconds(pid) - cpu
            out, _ = client.communicate(timeout=30)
        finally:
            client.kill()
    seen = json.loads(out)
    assert seen["codec"] == codec, f"asked for {codec}, got {seen['codec']}"
    sizes = [size for at, size, *_ in seen["packets"] if began <= at < ended]
    return Turn(cpu, len(sizes), sum(sizes))


def _kbits(turns: list[Turn]) -> float:
    return sum(turn.size for turn in turns) * 8 / (sum(turn.frames for turn in turns) / FPS) / 1000


# ---- conversion and encoder alone ------------------------------------------------------------------------------------


class _Bare:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def turn(self, seconds: float) -> Turn:
        """Encode for so long, after a warm-up, and wait for the figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return Turn(**json.loads(self._process.stdout.readline()))


@contextmanager
def _bare(codec: str) -> Iterator[_Bare]:
    command = [sys.executable, "-m", "benchmarks.media", codec]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready", "the encoder alone did not start"
            yield _Bare(process)
        finally:
            process.kill()


def _open(codec: str) -> Encoder:
    """The encoder as a viewer with a good link is given it."""
    settings = CodecSettings()
    encoder = open_encoder(TrackSpec("main_video", "video", "out"), codec, settings)
    encoder.configure(Quality(full_bitrate(codec, *SIZE, FPS, settings), FPS))
    return encoder


def main() -> None:
    """The process that encodes alone: a turn for each line on its standard input, which says for how many seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("codec")
    codec = parser.parse_args().codec
    pictures = clip(*SIZE)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        encoder, frames, size = _open(codec), 0, 0
        began, warm, cpu = time.monotonic(), round(WARM_UP * FPS), 0.0
        for number in range(warm + round(seconds * FPS)):
            if number == warm:
                cpu = time.process_time()
            encoded = encoder.encode(pictures[number % len(pictures)])
            if number >= warm:
                frames, size = frames + 1, size + encoded.payload.nbytes
            time.sleep(max(0.0, (number + 1) / FPS - (time.monotonic() - began)))
        cpu = time.process_time() - cpu
        encoder.close()
        print(json.dumps({"cpu": cpu, "frames": frames, "size": size}), flush=True)


if __name__ == "__main__":
    main()
