"""A clip of floats to frames: `to_frames` beside the formula that authors write by hand, on this machine's CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import Report
from reactor_trio import to_frames

#: milliseconds a frame of 704x1280
MAY_TAKE = 2.5
SHAPE = (1, 3, 12, 704, 1280)


def by_hand(video: Any) -> Any:
    """What the documentation of this family of runtimes tells authors to write; its result is in another order in memory."""
    import torch

    frames = video.squeeze(0).permute(1, 2, 3, 0)
    return ((frames + 1.0) * 127.5).clamp(0, 255).to(torch.uint8)


def run(report: Report, *, quick: bool) -> None:
    """Each dtype, by hand on one thread and on as many as torch takes by itself; the ways take turns."""
    import torch

    rounds = 3 if quick else 15
    threads = torch.get_num_threads()
    rows: list[list[object]] = []
    slowest = 0.0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        video = (torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)) * 2.2 - 1.1).to(dtype)
        one, many, own = in_turns(video, threads, rounds)
        wall = [float(np.median([milliseconds for milliseconds, _ in samples])) for samples in (one, many, own)]
        cpu = min(milliseconds for _, milliseconds in own)
        same = torch.equal(by_hand(video), to_frames(video, range=(-1, 1)))
        rows.append([str(dtype).removeprefix("torch."), *wall, cpu, wall[2] / wall[0], wall[2] / wall[1], same])
        slowest = max(slowest, cpu)
    report.table(
        f"{SHAPE} in [-1, 1] to uint8, ms a frame, medians of {rounds}",
        ["dtype", "by hand: 1 thread", f"{threads} threads", "to_frames", "best CPU", "ratio to 1", f"to {threads}", "same"],
        rows,
    )
    report.bar("best CPU time of a frame of the slowest dtype", slowest, MAY_TAKE, "ms")


def in_turns(video: Any, threads: int, rounds: int) -> list[list[tuple[float, float]]]:
    """Milliseconds a frame, passed and spent by this thread, of each run of each way.

    By turns, so that a busy moment of the machine meets all of them.
    """
    import torch

    ways: list[tuple[int, Callable[[], object]]] = [
        (1, lambda: by_hand(video)), (threads, lambda: by_hand(video)), (threads, lambda: to_frames(video, range=(-1, 1))),
    ]  # fmt: skip
    samples: list[list[tuple[float, float]]] = [[] for _ in ways]
    try:
        for turn in range(rounds + 1):
            for (count, way), kept in zip(ways, samples, strict=True):
                torch.set_num_threads(count)
                began, spent = time.perf_counter(), time.thread_time()
                way()
                took = time.perf_counter() - began, time.thread_time() - spent
                if turn:  # the first finds no memory of its own yet
                    kept.append((took[0] * 1000 / SHAPE[2], took[1] * 1000 / SHAPE[2]))
    finally:
        torch.set_num_threads(threads)
    return samples
