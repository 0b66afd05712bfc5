"""Does a model that blocks its thread disturb the pacer? Lateness of emission beside a bare `sleep_until` loop.

The model blocks for 500 ms in every step of 12 frames, so it plays at 24 frames a second and its thread is never idle.
Both measurements run in one child process, in turns: a loop that does nothing but `sleep_until` beside a thread that
blocks in the same way, and the whole runtime with a client in another process. Lateness is the time from the moment at
which a frame was due to that at which it was handed to be written. What an interpreter that computes in pure Python does to
other threads is the same for both, so that model is printed without a bar.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import trio

from benchmarks.peers import PONG, RawClient, environment, frame
from benchmarks.report import SPREAD, Report, spread
from reactor_trio import serve
from reactor_trio.configuration.settings import Settings
from reactor_trio.interface import Output, ReactorPipeline, Video

STEP, BATCH = 0.5, 12
FPS = BATCH / STEP
#: as `reactor run` sets it
SWITCH_INTERVAL = 0.001


# ---- ways of blocking -------------------------------------------------------------------------------------------------


def block_in_sleep() -> None:
    """The interpreter is let go, and so is the processor: waiting for a device."""
    time.sleep(STEP)


def block_in_blas() -> None:
    """The interpreter is let go between calls of some milliseconds, every core is busy."""
    until = time.perf_counter() + STEP
    while time.perf_counter() < until:
        _MATRIX @ _MATRIX


def block_in_python() -> None:
    """The interpreter is held, and given up only when another thread asks."""
    until = time.perf_counter() + STEP
    while time.perf_counter() < until:
        pass


_MATRIX = np.ones((700, 700), np.float32)
WAYS: dict[str, Callable[[], None]] = {"sleep": block_in_sleep, "BLAS": block_in_blas, "pure Python": block_in_python}
BARS = {"sleep": 2.0, "BLAS": 2.0}


class Picture(Output):
    main: Video


class Model(ReactorPipeline):
    """Blocks its thread from one yield to the next."""

    block: ClassVar[Callable[[], None]]

    async def inference(self):
        batch = np.zeros((BATCH, 64, 64, 3), np.uint8)
        while True:
            type(self).block()
            yield Picture(main=batch)


# ---- the child process ------------------------------------------------------------------------------------------------


def child() -> None:
    """Obeys lines of JSON on stdin: [way, "bare", seconds] or [way, "runtime"], which an empty line ends."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    for line in iter(sys.stdin.readline, ""):
        way, what, *rest = json.loads(line)
        samples = trio.run(_bare if what == "bare" else _runtime, WAYS[way], *rest)
        print(json.dumps(samples), flush=True)


async def _bare(block: Callable[[], None], seconds: float) -> dict[str, Any]:
    over, lateness = threading.Event(), []

    def model() -> None:
        while not over.is_set():
            block()

    thread = threading.Thread(target=model)
    thread.start()
    due = trio.current_time() + 1
    for number in range(round(seconds * FPS)):
        await trio.sleep_until(due + number / FPS)
        lateness.append(trio.current_time() - (due + number / FPS))
    over.set()
    thread.join()
    return {"lateness": lateness}


async def _runtime(block: Callable[[], None]) -> dict[str, Any]:
    Model.block = staticmethod(block)
    lateness: list[float] = []
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(lambda **kw: serve(Model, port=0, settings=Settings(), drain=drain, **kw))
        services = serving.runtime._services
        counted = services.handed

        def handed(frames: int, late: float) -> None:
            lateness.append(late)
            counted(frames, late)

        object.__setattr__(services, "handed", handed)
        print(json.dumps(serving.port), flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        drain.set()
    return {"lateness": lateness}


# ---- the client, in this process --------------------------------------------------------------------------------------


def watch(port: int, seconds: float, dice: random.Random) -> dict[str, list[float]]:
    """Watch a session, ping it at random moments, then come and go some times. Samples in seconds."""
    arrivals: list[float] = []
    pongs: list[float] = []
    with RawClient(port) as client, _pinging(client, dice):
        client.text("reactor.welcome")
        client.picture()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            opcode, payload = client.next_frame()
            now = time.monotonic()
            if opcode == PONG:
                pongs.append(now - struct.unpack("!d", payload)[0])
            elif opcode == 2:
                arrivals.append(now)
    gone = []
    for _ in range(5):
        with RawClient(port) as client:
            client.picture()
            time.sleep(dice.random() * STEP)
            client.socket.shutdown(1)
            left = time.monotonic()
            client.rest()
            gone.append(time.monotonic() - left)
    return {"gaps": [after - before for before, after in pairwise(arrivals)], "pongs": pongs, "gone": gone}


@contextmanager
def _pinging(client: RawClient, dice: random.Random) -> Iterator[None]:
    over = threading.Event()

    def ping() -> None:
        while not over.wait(dice.uniform(0.02, 0.2)):
            client.send(frame(9, struct.pack("!d", time.monotonic())))

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# ---- the benchmark ----------------------------------------------------------------------------------------------------


def run(report: Report, *, quick: bool) -> None:
    """Turns of the bare loop and of the runtime, for each way of blocking."""
    seconds, turns, dice = (4.0, 2, random.Random(1)) if quick else (12.0, 5, random.Random(1))
    with subprocess.Popen(
        [sys.executable, "-c", "from benchmarks.pacing import child; child()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(*message: object) -> Any:
            process.stdin.write(json.dumps(message) + "\n" if message else "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        for way in WAYS:
            bare: list[float] = []
            paced: list[float] = []
            seen: dict[str, list[float]] = {"gaps": [], "pongs": [], "gone": []}
            for _ in range(turns):
                bare += ask(way, "bare", seconds)["lateness"]
                for name, samples in watch(ask(way, "runtime"), seconds, dice).items():
                    seen[name] += samples
                paced += ask()["lateness"]
            _tell(report, way, turns, bare, paced, seen)
        process.stdin.close()


def _tell(
    report: Report, way: str, turns: int, bare: list[float], paced: list[float], seen: dict[str, list[float]]
) -> None:
    report.table(
        f"a model that blocks {1000 * STEP:.0f} ms for {BATCH} frames in {way}, ms, {turns} turns each",
        ["", *SPREAD],
        [
            ["late, bare sleep_until", *spread(bare)],
            ["late, runtime's pacer", *spread(paced)],
            [f"frame to frame at the client (due {1000 / FPS:.2f})", *spread(seen["gaps"])],
            ["ping to pong", *spread(seen["pongs"])],
            ["client leaves to socket closed", *spread(seen["gone"])],
        ],
    )
    above = spread(paced)[3] - spread(bare)[3]
    if way in BARS:
        report.bar(f"{way}: p99 lateness above the bare loop's", above, BARS[way], "ms")
        report.bar(f"{way}: slowest pong", spread(seen["pongs"])[4], 100, "ms")
        report.bar(f"{way}: slowest notice of a disconnect", spread(seen["gone"])[4], 100, "ms")
    else:
        report.note(f"{way}: p99 lateness {above:+.2f} ms beside the bare loop's; no bar")
