"""What the runtime takes from the model: the time between two steps, and the processor time of a frame.

Gap: a model whose step takes longer than its rate allows, so it never waits for its turn to be shown. It reads the clock
before and after each `yield`. In every other step it copies the array itself, into memory that it keeps, which is the least
that a copy costs. The array is *kept* (the model may write into it again), *read-only*, or *given* (the model holds no
reference when it yields).

Cold: in a program without the runtime, the acceptance of a read-only array and a bare checkpoint of Trio, repeated at once
and after a pause as long as a step. Code and data that were not used for milliseconds are no longer in the processor's
caches, above all on a machine that others share.

Batches: the same with 12 frames in a step, at a rate of 30 without the runtime.

Processor: a model that computes nothing, with one session and with eight, beside a bare spine: two Trio loops on two
threads, where the model's loop sleeps until each frame is due and posts it, and a task of the other loop writes it. Turns
alternate.

Sessions: as many sessions of that model as two cores may serve.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import trio

from benchmarks.peers import RawClient, bare_server, reactor_run
from benchmarks.report import Report
from benchmarks.sessions import count_frames, sessions_server
from reactor_trio.interface import Output, Video
from reactor_trio.media import chunk_from_output
from reactor_trio.protocol import KEYFRAME, packet_head

FPS = 30
SIZES = {"480p": (640, 480), "720p": (1280, 720)}
WAYS = ("kept", "read-only", "given")
#: seconds of a step
STEP = 0.04
#: seconds that the runtime may take from the model between two steps, beyond a copy
GAP = 0.00015
#: frames a second of a batch of 12 that takes as long as it is shown
BATCH, RATE = 12, 29.9
#: processor time of a frame to that of the bare spine; frames a second of each of 40 sessions
SPINE, SESSIONS, LEAST = 1.5, 40, 29.5
#: the small picture
WIDTH, HEIGHT = 160, 120

TIMED = """\
import json, time
from pathlib import Path
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    output: Picture
    fps = {fps}

    def inference(self):
        scene = np.random.default_rng(1).integers(0, 256, {shape}, np.uint8)
        kept, copied = scene.copy(), scene.copy()
        clock, taken = time.perf_counter, []
        for step in range({steps}):
            for way in {ways}:
                frame = kept if way == "kept" else scene.copy()
                kept[...] = scene
                frame.flags.writeable = way != "read-only"
                time.sleep({seconds})
                if step % 2:
                    began = clock()
                    copied[...] = frame
                    taken.append((way, "copy", clock() - began, 0.0))
                held = [frame]
                del frame
                used, began = time.thread_time(), clock()
                yield Picture(main=held.pop() if way == "given" else held[0])
                ended, used = clock(), time.thread_time() - used
                if not step % 2:
                    taken.append((way, "gap", ended - began, used))
        Path("taken").write_text(json.dumps(taken))
        Path("taken").rename("taken.json")
        while True:
            yield None
"""

NOTHING = """
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    output: Picture
    fps = 30
    max_sessions = 64

    def inference(self):
        picture = np.full((120, 160, 3), 127, np.uint8)
        picture.flags.writeable = False
        while True:
            yield picture
"""


def run(report: Report, *, quick: bool) -> None:
    """Gap, cold, batches, processor, sessions."""
    gaps(report, steps=12 if quick else 200)
    cold(report, quick=quick)
    batches(report, quick=quick)
    processor(report, turns=1 if quick else 7, quick=quick)
    many(report, quick=quick)


def turn(report: Report, *, quick: bool) -> None:
    """One turn of gap and processor, the main figures (a minute)."""
    gaps(report, steps=12 if quick else 100)
    processor(report, turns=1, quick=quick)


# ---- between two steps ------------------------------------------------------------------------------------------------

#: by (way, "gap" or "copy"): wall seconds and, of a gap, the model thread's processor seconds
Taken = dict[tuple[str, str], list[tuple[float, float]]]


def gaps(report: Report, *, steps: int) -> None:
    """Each size in a server of its own."""
    rows, bars = [], []
    for name, (width, height) in SIZES.items():
        taken = timed((height, width, 3), WAYS, steps=steps, seconds=STEP)
        for way in WAYS:
            gap, copy = _median(taken[way, "gap"]), _median(taken[way, "copy"])
            beyond = gap if way == "read-only" else gap - copy
            used = median(used for _, used in taken[way, "gap"])
            report.figure(f"{name}, {way}: yield to resume, us", 1e6 * gap)
            rows.append([f"{name}, {way}", *(1e6 * each for each in (gap, copy, beyond, used))])
            bars.append((f"{name}, {way}: gap beyond {'nothing' if way == 'read-only' else 'a copy'}", 1000 * beyond))
    report.table(
        "yield to resume of a model that is always behind, us (p50)",
        ["", "gap", "a copy", "beyond", "model thread's processor"], rows,
    )  # fmt: skip
    for what, beyond in bars:
        report.bar(what, beyond, 1000 * GAP, "ms")


class Picture(Output):
    """The output of `cold`."""

    main: Video


def cold(report: Report, *, quick: bool) -> None:
    """Two parts of a gap, alone: repeated at once, and after pauses in which the thread computes or sleeps."""
    samples = 20 if quick else 100
    picture = np.zeros((480, 640, 3), np.uint8)
    picture.flags.writeable = False

    async def accept() -> None:
        chunk_from_output(Picture(main=picture), (Picture,))

    rows = []
    for name, part in (("acceptance of a read-only array", accept), ("a bare checkpoint", trio.lowlevel.checkpoint)):
        taken = [median(trio.run(_times, part, pause, samples)) for pause in (None, _spin, time.sleep)]
        rows.append([name, *(1e6 * each for each in taken), taken[-1] / taken[0]])
    report.table(
        f"parts of a gap alone, us (p50): repeated at once, and after {1000 * STEP:g} ms",
        ["", "at once", "after a loop", "after a sleep", "sleep to at once"], rows,
    )  # fmt: skip


async def _times(part: Callable[[], Awaitable[object]], pause: Callable[[float], object] | None, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        if pause is not None:
            pause(STEP)
        began = time.perf_counter()
        await part()
        taken.append(time.perf_counter() - began)
    return taken


def _spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def batches(report: Report, *, quick: bool) -> None:
    """Batches of 12, 720p, whose step takes 0.4 s."""
    seconds = BATCH / FPS
    width, height = SIZES["720p"]
    taken = timed((BATCH, height, width, 3), WAYS, steps=4 if quick else 20, seconds=seconds)
    rows = []
    for way in WAYS:
        gap, copy = _median(taken[way, "gap"]), _median(taken[way, "copy"])
        rows.append([way, 1000 * gap, 1000 * copy, BATCH / (seconds + gap), BATCH / (seconds + copy)])
    report.table(
        f"batches of {BATCH} at 720p, natural rate {FPS} fps",
        ["", "gap ms", "a copy ms", "fps", "fps with a copy alone"], rows,
    )  # fmt: skip
    for way, *_, fps, _ in rows:
        report.bar(f"batch of {BATCH}, {way}: frames a second", fps, RATE, "fps", least=True)


def timed(shape: tuple[int, ...], ways: tuple[str, ...], *, steps: int, seconds: float) -> Taken:
    """Serve the model to one client that reads all, and return what the model has measured."""
    source = TIMED.format(shape=shape, steps=steps, ways=ways, seconds=seconds, fps=2 * FPS)
    with tempfile.TemporaryDirectory() as folder:
        with reactor_run(Path(folder), source) as server, RawClient(server.port) as client:
            discard_until(client, Path(folder) / "taken.json")
        taken: Taken = {}
        for way, what, wall, used in json.loads((Path(folder) / "taken.json").read_text()):
            taken.setdefault((way, what), []).append((wall, used))
        return taken


def discard_until(client: RawClient, done: Path) -> None:
    drain = bytearray(1 << 20)
    client.socket.settimeout(0.2)
    while not done.exists():
        try:
            client.socket.recv_into(drain)
        except TimeoutError:
            continue


def _median(samples: list[tuple[float, float]]) -> float:
    return median(wall for wall, _ in samples)


# ---- processor time of a frame ----------------------------------------------------------------------------------------


def processor(report: Report, *, turns: int, quick: bool) -> None:
    """Turns of the spine and of the runtime, which both run all the time."""
    seconds, warm_up = (1.0, 1.0) if quick else (4.0, 1.5)
    counts = (1, 8)
    cost: dict[tuple[str, int], list[float]] = {}
    with bare_server(__name__) as (spine, spine_port), sessions_server(NOTHING, max_sessions=max(counts)) as server:
        servers = {"bare spine": (spine, spine_port), "runtime": (server.process.pid, server.port)}
        for _ in range(turns):
            for count in counts:
                for name, (pid, port) in servers.items():
                    counted, cpu, _ = count_frames(pid, port, ["control"] * count, "raw", seconds, warm_up)
                    cost.setdefault((name, count), []).append(cpu / max(1, sum(counted["frames"])))
    report.table(
        f"processor time of a raw {WIDTH}x{HEIGHT} frame at {FPS} fps, us, {turns} turns of {seconds:g} s",
        ["", "median", "least", "most"],
        [
            [f"{name}, {count} session{'s' * (count > 1)}", *(1e6 * f(taken) for f in (median, min, max))]
            for (name, count), taken in cost.items()
        ],
    )
    for count in counts:
        sessions, ours = f"{count} session{'s' * (count > 1)}", cost["runtime", count]
        ratio = median(each / bare for each, bare in zip(ours, cost["bare spine", count], strict=True))
        report.figure(f"{sessions}: processor time of a frame, us", 1e6 * median(ours))
        report.bar(f"{sessions}: processor time of a frame to the bare spine's", ratio, SPINE, "times")


def many(report: Report, *, quick: bool) -> None:
    """40 sessions of the model that computes nothing."""
    seconds, turns = (2.0, 1) if quick else (6.0, 3)
    rates, used = [], []
    with sessions_server(NOTHING, max_sessions=SESSIONS) as server:
        for _ in range(turns):
            counted, cpu, _ = count_frames(server.process.pid, server.port, ["control"] * SESSIONS, "raw", seconds, 3.0)
            rates.append(sum(counted["frames"]) / SESSIONS / seconds)
            used.append(cpu / seconds)
    report.table(
        f"{SESSIONS} sessions of a model that computes nothing, {turns} turns of {seconds:g} s",
        ["", "median", "least", "most"],
        [[name, *(f(each) for f in (median, min, max))] for name, each in (("fps each", rates), ("cores", used))],
    )
    report.bar(f"{SESSIONS} sessions: frames a second of each", median(rates), LEAST, "fps", least=True)


# ---- the bare spine ---------------------------------------------------------------------------------------------------


def serve_bare() -> None:
    """The child process: a model loop and an I/O loop, and nothing between them but a posted call for each frame."""
    sys.setswitchinterval(0.001)  # as `reactor run` sets it
    trio.run(_serve_spine)


async def _serve_spine() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listener.socket.getsockname()[1], flush=True)
    io = trio.lowlevel.current_trio_token()
    started: list[Any] = []
    ready = threading.Event()

    async def model_loop() -> None:
        async with trio.open_nursery() as nursery:
            started.extend((trio.lowlevel.current_trio_token(), nursery))
            ready.set()
            await trio.sleep_forever()

    threading.Thread(target=trio.run, args=(model_loop,), daemon=True).start()
    ready.wait()
    model, models = started

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        frames, scope = trio.open_memory_channel[tuple[int, Any]](math.inf), trio.CancelScope()
        model.run_sync_soon(models.start_soon, _make, io, frames[0], scope)
        try:
            async for number, picture in frames[1]:
                payload = picture.data.cast("B")
                head = packet_head(0, number, round(1e6 * number / FPS), KEYFRAME, None, number, {}, payload)
                await _send(stream.socket, struct.pack("!BBQ", 0x82, 127, len(head) + payload.nbytes) + head, payload)
        except OSError:
            model.run_sync_soon(scope.cancel)
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        await trio.serve_listeners(serve, [listener], handler_nursery=nursery)


async def _make(io: trio.lowlevel.TrioToken, frames: trio.MemorySendChannel[Any], scope: trio.CancelScope) -> None:
    """One session of the model: a frame each time that one is due."""
    picture = np.full((HEIGHT, WIDTH, 3), 127, np.uint8)
    began = trio.current_time()
    with scope:
        for number in range(1 << 30):
            await trio.sleep_until(began + number / FPS)
            io.run_sync_soon(frames.send_nowait, (number, picture))


async def _send(connection: trio.socket.SocketType, *parts: bytes | memoryview) -> None:
    sent = await connection.sendmsg(parts)
    for part in parts:
        view = memoryview(part)[min(sent, len(part)) :]
        sent -= len(part) - len(view)
        while view:
            view = view[await connection.send(view) :]
