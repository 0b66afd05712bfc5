"""Worlds: what a moment costs beside one copy of the same bytes, and a file beside a plain write and a hash."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Report
from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.interface.saving import Saves
from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.capture import capture
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.put import prepare

#: of the time of one copy, and milliseconds beside it
CAPTURE_MAY_TAKE, BESIDE = 1.1, 0.1
#: of the time of a plain write and a hash, by one thread
PACK_MAY_TAKE = 1.3
WINDOW = 197_000  # bytes of the dream's world


class Canvas(InputState):
    """One array, and a few small values."""

    _large: Any = None
    _parts: Any = None


class Painter(ReactorPipeline):
    """A model that is nothing but its world."""

    state: Canvas
    saves = Saves()


def run(report: Report, *, quick: bool) -> None:
    """CPU time of this thread, medians; both ways of a row take turns."""
    rounds = 5 if quick else 21
    rows = [captured(size, rounds, alone=False) for size in (0, WINDOW, 64 << 20, *([] if quick else [512 << 20]))]
    rows.append(captured(WINDOW, rounds, alone=True))
    report.table(
        f"a capture, CPU ms, medians of {rounds}",
        ["bytes", "one copy", "all new", "to copy", "new at its end", "the same", "put", "process's generators"], rows,
    )  # fmt: skip
    for row in rows[1:-1]:
        size, copy, new = row[:3]
        allowed = CAPTURE_MAY_TAKE * copy + BESIDE  # type: ignore[operator]
        report.bar(f"a capture of {size} bytes, of what it may take", new / allowed, 1.0, "x")  # type: ignore[operator]
    rows = [packed(size, 3 if quick else 7) for size in ((64 << 20,) if quick else (64 << 20, 256 << 20, 512 << 20))]
    report.table("a file, CPU ms, medians", ["bytes", "write", "hash", "pack and write", "to write and hash"], rows)
    for row in rows:
        if quick or row[0] >= 256 << 20:  # type: ignore[operator]
            report.bar(f"a file of {row[0]} bytes, to write and hash", row[-1], PACK_MAY_TAKE, "x")  # type: ignore[arg-type]


def captured(size: int, rounds: int, *, alone: bool) -> list[object]:
    """Milliseconds of a copy, of a capture after each kind of change, and of a put."""
    model, copies = Painter(), Copies()
    array = model.state._large = np.zeros(size, np.uint8)
    model.state._parts = {"dice": np.random.default_rng(1), "window": [np.zeros(1000, np.uint8) for _ in range(4)]}

    def moment() -> Any:
        return capture(model, copies, step=1, steps=1, age=0.1, alone=alone)

    def changed(places: slice) -> Callable[[], object]:
        def change() -> object:
            array[places] += 1
            return moment()

        return change

    world = moment()
    ways: list[Callable[[], object]] = [array.copy, changed(slice(0, 1)), changed(slice(-1, None)), moment]
    if not size:
        ways[1] = ways[2] = moment
    took = in_turns([*ways, lambda: prepare(model, world, alone=alone)], rounds)
    copy, new, at_end, same, put = took
    return [size, copy, new, new / copy, at_end, same, put, alone]


def packed(size: int, rounds: int) -> list[object]:
    """Milliseconds of a plain write and of a hash of so many bytes, and of a world of them."""
    model = Painter()
    array = model.state._large = np.random.default_rng(1).integers(0, 255, size, np.uint8)
    world = capture(model, Copies(), step=1, steps=1, age=0.1, alone=False)
    origin = Origin(model="painter:Painter", name="painter", version=1, schema_hash="")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "a.world"

        def write() -> None:
            with place.open("wb", buffering=0) as file:
                file.write(array.data)

        def pack_and_write() -> None:
            with place.open("wb", buffering=0) as file:
                for part in pack(world, origin, b"k" * 32, most_bytes=1 << 32):
                    file.write(part)

        write_ms, hash_ms, pack_ms = in_turns(
            [write, lambda: hashlib.blake2b(array.data).digest(), pack_and_write], rounds
        )
    return [size, write_ms, hash_ms, pack_ms, pack_ms / (write_ms + hash_ms)]


def in_turns(ways: list[Callable[[], object]], rounds: int) -> list[float]:
    """The median milliseconds of this thread that each way takes; a busy moment of the machine meets all of them."""
    samples: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for way, kept in zip(ways, samples, strict=True):
            began = time.thread_time()
            way()
            if turn:  # the first finds no memory of its own yet
                kept.append((time.thread_time() - began) * 1000)
    return [float(np.median(each)) for each in samples]
