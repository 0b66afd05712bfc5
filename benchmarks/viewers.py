"""Several H.264 viewers of one session: how soon a late one has a picture, and what one more costs.

A server process plays a moving, grainy picture of 640x480 at 30 fps, or shows it for a moment and then stands still. Late
viewers come and go one after another, by the Python client in this process; the time is from the welcome until the first
picture is decoded. Once another viewer asks for a keyframe ten times a second all the while.

Cost: processor time of the server, all its threads, for each frame delivered, less what it takes while nobody watches.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from benchmarks.peers import cpu_seconds, reactor_run
from benchmarks.pictures import clip_model
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.client import Client, connect

SIZE = (640, 480)
FPS = 30
VIEWERS = (1, 2, 4, 8)
#: seconds within which a late viewer has a picture
LATE = 0.1
#: what a delivered frame may cost at most with the most viewers, as a multiple of what it costs with one
SHARED = 0.5
WARM_UP = 2.0
CODEC = "h264"

MODEL = clip_model(*SIZE, FPS) + """
import trio

class Model(Model):
    async def inference(self):
        moving = MOVING
        while moving is None or moving > 0:
            for picture in self.clip:
                yield picture
            moving = moving and moving - 1
        await trio.sleep_forever()
"""


def run(report: Report, *, quick: bool) -> None:
    """Late viewers of a moving and of a still model, then the cost."""
    rows, late = [], {}
    for name, moving, nagging in (("moving", None, False), ("moving, keyframes asked for", None, True), ("still", 1, False)):
        with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), _model(moving)) as server:
            late[name] = trio.run(_late_viewers, server.port, nagging, 6 if quick else 40)
        rows.append([name, *spread(late[name])])
    report.table("from a late viewer's welcome to its first picture, ms", ["model", *SPREAD], rows)
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), _model(None)) as server:
        costs = trio.run(_costs, server.port, server.process.pid, 3.0 if quick else 10.0)
    one = costs[0][1]
    report.table(
        f"the server's processor time, ms ({SIZE[0]}x{SIZE[1]} at {FPS} fps)",
        ["viewers", "for a frame delivered", "to one viewer's", "for a frame made", "to one viewer's", "fps each"],
        [[str(n), each, each / one, each * n, each * n / one, fps] for n, each, fps in costs],
    )
    for name, *_, p95, _, _ in rows:
        report.bar(f"{name}: a late viewer's first picture, p95", p95, 1000 * LATE, "ms")
    report.bar(f"a frame delivered to one of {VIEWERS[-1]} viewers", costs[-1][1] / one, SHARED, "times one viewer's")


def _model(rounds: int | None) -> str:
    return MODEL.replace("MOVING", repr(rounds))


async def _late_viewers(port: int, nagging: bool, count: int) -> list[float]:
    """Seconds until the first picture of each."""
    url, took = f"ws://127.0.0.1:{port}/ws", []
    async with connect(url, video=[CODEC]), AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        await trio.sleep(3)  # the still one has come to rest
        if nagging:
            nursery.start_soon(_nag, await stack.enter_async_context(connect(url, video=[CODEC], role="viewer")))
        for number in range(count + 1):
            async with connect(url, video=[CODEC], role="viewer") as client:
                welcomed = time.monotonic()
                async for _ in client.frames():
                    took.append(time.monotonic() - welcomed)
                    break
            await trio.sleep(0.3 + 0.037 * (number % 10))  # not in step with frames and floors
        nursery.cancel_scope.cancel()
    return took[1:]  # the first one loads the decoder


async def _nag(client: Client) -> None:
    while True:
        await client._connection.send(json.dumps({"type": "reactor.keyframe", "data": {"track": 0}}))
        await trio.sleep(0.1)


async def _costs(port: int, pid: int, seconds: float) -> list[tuple[int, float, float]]:
    """Viewers, milliseconds of the server for a frame delivered, frames per second for each."""
    url, costs = f"ws://127.0.0.1:{port}/ws", []
    resting = await _cpu(pid, seconds)
    for count in VIEWERS:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connect(url, video=[CODEC]))]
            for _ in range(count - 1):
                clients.append(await stack.enter_async_context(connect(url, video=[CODEC], role="viewer")))
            await trio.sleep(WARM_UP)
            before = _frames(clients)
            cpu = await _cpu(pid, seconds)
            frames = _frames(clients) - before
        costs.append((count, 1000 * (cpu - resting) / frames, frames / seconds / count))
        await trio.sleep(0.5)  # the session unwinds
    return costs


async def _cpu(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    await trio.sleep(seconds)
    return cpu_seconds(pid) - before


def _frames(clients: list[Client]) -> int:
    return sum(client.statistics().tracks["main_video"].frames for client in clients)
