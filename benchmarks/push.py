"""From a client's push to the model: a server process, our client in this process, JPEG pictures of 640x480 on loopback.

The time runs from the call of `push_video` with pixels to the return of the model's `read` with pixels: encoding in the
client, the socket, decoding on the server's worker thread, and the way to the model's loop. Both processes read one clock
(CLOCK_MONOTONIC); the model sends each arrival's time as a message when the measurement is over. The model waits in `read`
for each frame and yields none, so that what is measured is the way of the frame and not the model.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import trio

from benchmarks.peers import reactor_run
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.client import connect

FPS = (30, 60)
SIZE = (640, 480)

MODEL = '''
import time
from reactor_trio import *

class Picture(Output):
    main: Video

class Webcam(Input):
    camera: Video

class Model(ReactorPipeline):
    input: Webcam

    @connected
    def begin(self):
        self.arrivals = {}

    @event
    def report(self) -> dict:
        return self.arrivals

    async def inference(self):
        while True:
            try:
                (frame,) = await self.input.camera.read(timeout=0.1)
            except TimeoutError:
                yield Idle
                continue
            self.arrivals[str(round(frame.pts * 1000))] = time.monotonic()
'''


def run(report: Report, *, quick: bool) -> None:
    """Turns over the rates and codecs."""
    turns, frames = (1, 60) if quick else (3, 300)
    ways = [(codec, fps) for codec in ("jpeg", "raw") for fps in FPS]
    samples: dict[tuple[str, int], list[float]] = {way: [] for way in ways}
    pushed: dict[tuple[str, int], int] = dict.fromkeys(ways, 0)
    for _ in range(turns):
        for codec, fps in ways:
            with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL) as running:
                samples[codec, fps] += trio.run(_times, running.port, codec, fps, frames)
                pushed[codec, fps] += frames
    rows = [[codec, fps, pushed[codec, fps], *spread(samples[codec, fps])] for codec, fps in ways]
    report.table(
        f"push to arrival in the model, ms ({SIZE[0]}x{SIZE[1]}, {turns} turns, encoding and decoding included)",
        ["codec", "fps", "pushed", *SPREAD], rows,
    )  # fmt: skip
    for fps in FPS:
        report.bar(f"jpeg at {fps} fps: median", 1000 * median(samples["jpeg", fps]), 15, "ms")


async def _times(port: int, codec: str, fps: int, count: int) -> list[float]:
    """Seconds from push to arrival of the frames that arrived."""
    picture, sent = _picture(), {}
    async with connect(f"ws://127.0.0.1:{port}/ws", video=[]) as client:
        for number in range(-10, count):  # the first ones warm up
            due = trio.current_time() + 1 / fps
            if number >= 0:
                sent[number] = time.monotonic()
            await client.push_video("camera", picture, (number + 10) / 1000, codec=codec)
            picture = np.roll(picture, 1, axis=1)
            await trio.sleep_until(due)
        arrivals = await client.command("report")
    return [arrivals[str(number + 10)] - at for number, at in sent.items() if str(number + 10) in arrivals]


def _picture() -> np.ndarray:
    """As a camera's: smooth, with some noise; about 50 kB as a JPEG."""
    width, height = SIZE
    x, y = np.meshgrid(np.linspace(0, 8, width), np.linspace(0, 6, height))
    smooth = np.stack([np.sin(x + k) * np.cos(y - k) * 100 + 128 for k in range(3)], axis=2)
    noise = np.random.default_rng(1).normal(0, 6, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)
