"""Rendering to a film against a bare loop: the model of `reactor init` (640x480) with the same encoder, in one process.

Four ways take turns. *Loop*: the generator alone, its frames dropped. *Loop, encoder*: the same, each frame encoded in
between on the same thread, as a script of one's own would. *Taken*: `render`, its frames dropped. *Film*: `render`, written
to a film; model and encoder each have a thread. And the digests by which a recording knows its frames again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.report import Report
from reactor_trio.cli.templates.gradient.pipeline import MyModel
from reactor_trio.offline import RenderedBundle, render, write
from reactor_trio.offline.film_files import FilmWriter
from reactor_trio.offline.open_rendering import run_blocking
from reactor_trio.recording import frame_digest

#: processor time that a film may take, as a multiple of the bare loop's with the encoder on the same thread
MAY_TAKE = 1.25
SIZES = ((640, 480), (1280, 720), (1920, 1080))


def run(report: Report, *, quick: bool) -> None:
    """Frames a second of each way."""
    frames, turns = (40, 2) if quick else (400, 5)
    ways: dict[str, Callable[[Path, int], object]] = {
        "loop": lambda _, count: loop(count, None),
        "loop, encoder": lambda folder, count: loop(count, folder / "film.mp4"),
        "taken": lambda _, count: rendering(count, None),
        "film": lambda folder, count: rendering(count, folder / "film.mp4"),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name, way in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                began, spent = time.perf_counter(), time.process_time()
                way(Path(folder), frames)
                if turn:
                    took[name].append((time.perf_counter() - began, time.process_time() - spent))
    seconds, cpu = ({name: float(np.median([s[i] for s in samples])) for name, samples in took.items()} for i in (0, 1))
    report.table(
        f"{frames} frames of 640x480, medians of {turns} turns",
        ["way", "frames/s", "ms a frame", "CPU ms a frame", "time to loop, encoder", "CPU"],
        [
            [name, frames / s, 1000 * s / frames, 1000 * cpu[name] / frames, s / seconds["loop, encoder"],
             cpu[name] / cpu["loop, encoder"]]
            for name, s in seconds.items()
        ],
    )
    report.table("digest of a frame, ms", ["size", "MB", "ms"], [digest(width, height) for width, height in SIZES])
    report.bar("a film's CPU time by that of loop and encoder", cpu["film"] / cpu["loop, encoder"], MAY_TAKE, "times")


def loop(count: int, path: Path | None) -> None:
    """The generator of the model, and the encoder between its frames."""
    model: Any = SimpleNamespace(width=640, height=480, chunk_size=4, state=SimpleNamespace(brightness=1.0))
    writer = None if path is None else FilmWriter(path, MyModel.__reactor_declaration__)
    made = 0
    for output in MyModel.inference(model):
        for frame in output.main_video:
            if writer is not None:
                tracks = {"main_video": frame}
                writer.write(RenderedBundle(made, made / 30, 1 / 30, tracks, {"main_video": made}, None, 0.0))
            made += 1
        if made >= count:
            break
    if writer is not None:
        writer.close()


def rendering(count: int, path: Path | None) -> None:
    """The same by `render`, its load included."""

    async def all_of_it() -> None:
        async with render(MyModel, frames=count) as bundles:
            await write(bundles, path)

    run_blocking(all_of_it)


def digest(width: int, height: int) -> list[object]:
    """What one takes."""
    frame = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    samples = []
    for _ in range(30):
        began = time.perf_counter()
        frame_digest(frame)
        samples.append(time.perf_counter() - began)
    return [f"{width}x{height}", frame.nbytes / 1e6, 1000 * float(np.median(samples))]
