"""Sessions whose tensors lie on a card: their colours, memory that comes back, and failures that only a card can have."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from benchmarks.peers import Gone, RawClient, ReactorProcess, health, reactor_run
from benchmarks.report import NeedsCard
from reactor_trio.client import connect

#: shows eight bars; what else a step does, `todo` says
MODEL = """\
import gc
import torch
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    todo: str = ""

class Model(ReactorPipeline):
    output: Picture
    state: State
    fps = 60

    def load(self, config):
        self.device = torch.device("{device}")
        colours = [[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)]
        row = torch.tensor(colours, dtype=torch.uint8, device=self.device).repeat_interleave(80, 0)
        self.bars, self.captured = row.expand(480, 640, 3).contiguous(), 0
        gc.collect()
        gc.disable()

    @event
    def memory(self):
        return torch.cuda.memory_allocated() if self.device.type == "cuda" else 0

    @event
    def captures(self):
        return self.captured

    def capture(self, mode):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            self.bars.flip(0)
        self.captured += 1

    def inference(self):
        self.state.own = torch.zeros(64 << 20, dtype=torch.uint8, device=self.device)
        own = torch.ones(64 << 20, dtype=torch.uint8, device=self.device)
        while True:
            todo = self.state.todo
            if todo == "bad index":
                own[torch.tensor([1 << 40], device=self.device)]
            elif todo == "too much memory":
                torch.empty(1 << 45, dtype=torch.uint8, device=self.device)
            elif todo == "raise":
                raise ValueError("as asked")
            elif todo:
                self.capture(todo)
            yield Picture(main=self.bars)
"""

#: how far a colour may be from the author's, of 255: of JPEG and video the chroma is less exact
APART = {"raw": 0, "jpeg": 6, "h264": 6, "vp8": 6}
#: sessions that begin and end
SESSIONS = 50


def colours(device: Any, quick: bool) -> Iterator[list[object]]:
    """What the Python client decodes of a picture on the card, and at which rate of 60."""
    for isolation in ("thread", "process"):
        with _served(device, isolation) as server:
            for codec, most in APART.items():
                apart, rate = anyio.run(_watch, server.port, codec, 30 if quick else 180, backend="trio")
                yield [f"{codec}, in a {isolation}", f"at most {apart} of 255 apart, {rate:.1f} fps"]
                if apart > most:
                    raise ValueError(f"{codec} in a {isolation}: a colour is {apart} of 255 apart, at most {most}")


async def _watch(port: int, codec: str, count: int) -> tuple[int, float]:
    bars = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)])
    async with connect(f"ws://127.0.0.1:{port}/ws", video=[codec]) as client:
        frames = client.frames()
        for _ in range(20):
            await anext(frames)
        began = time.perf_counter()
        for _ in range(count):
            frame = await anext(frames)
        rate = count / (time.perf_counter() - began)
        middles = np.asarray(frame.data)[100:380, 40::80].astype(int)
    return int(np.abs(middles - bars).max()), rate


def memory_back(device: Any, quick: bool) -> Iterator[list[object]]:
    """What the card holds with one session, before and after others with 128 MiB each; in a model without the collector."""
    count = 6 if quick else SESSIONS
    for isolation in ("thread", "process"):
        with _served(device, isolation) as server:
            _visit(server, 0)
            before = _memory(server)
            for number in range(count):
                _visit(server, number)
            after = _memory(server)
        yield [f"{count} sessions in a {isolation}", f"{before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after"]
        if after > before:
            raise ValueError(f"in a {isolation} sessions left {(after - before) / 2**20:.1f} MiB on the card")


def _visit(server: ReactorProcess, number: int) -> None:
    """A session that ends by its client, politely or not, or by its model."""
    with RawClient(server.port, f"/ws?video={['raw', 'h264', 'jpeg'][number % 3]}") as client:
        for _ in range(3):
            client.picture()
        if number % 4 == 1:
            client.say("set_todo", todo="raise")
            client.gone()
        elif number % 4 == 2:
            client.vanish()


def _memory(server: ReactorProcess) -> int:
    with RawClient(server.port) as client:
        for _ in range(3):
            client.picture()
        return int(_ask(client, "memory"))


def failures(device: Any, quick: bool) -> Iterator[list[object]]:
    """A kernel that fails, and memory that is not there: how the session ends, and whether another one can begin."""
    if device.type != "cuda":
        raise NeedsCard
    for isolation in ("thread", "process"):
        for what in ("bad index", "too much memory"):
            with _served(device, isolation) as server:
                with RawClient(server.port) as client:
                    client.picture()
                    client.say("set_todo", todo=what)
                    end = client.gone()
                began = time.perf_counter()
                afterwards = _afterwards(server)
            yield [
                f"{what}, in a {isolation}",
                f"close {end.code} {end.reason}; {afterwards} after {time.perf_counter() - began:.1f} s",
            ]


def _afterwards(server: ReactorProcess) -> str:
    """What the next client finds; asked for as long as the server says that it loads."""
    until, status = time.monotonic() + 60, 0
    while time.monotonic() < until:
        time.sleep(0.2)
        if server.process.poll() is not None:
            return f"the server has ended with {server.process.poll()}"
        with suppress(Gone, OSError):  # it may be about to end
            status, _ = health(server.port)
            if status != 200:
                continue
            with RawClient(server.port) as client:
                client.picture()
                return "the next session has its picture"
    return f"no session for a minute, /health is {status}"


def captures(device: Any, quick: bool) -> Iterator[list[object]]:
    """CUDA graphs that a model captures between its frames, while the runtime fetches them on other threads."""
    if device.type != "cuda":
        raise NeedsCard
    for mode in ("global", "thread_local"):
        with _served(device, "thread") as server, RawClient(server.port, "/ws?video=h264") as client:
            client.picture()
            client.say("set_todo", todo=mode)
            try:
                for _ in range(30 if quick else 300):
                    client.picture()
                done = f"{_ask(client, 'captures')} captured"
            except Gone as gone:
                done = f"the session ended with {gone.code} {gone.reason}: {_last(server)}"
            warnings = sum("a device cannot convert" in line for line in server.log.splitlines())
        yield [f'capture_error_mode="{mode}"', f"{done}; warnings of conversion: {warnings}"]


def _last(server: ReactorProcess) -> str:
    """The last line of the log that names an error."""
    return [line for line in server.log.splitlines() if "Error" in line][-1][-160:]


@contextmanager
def _served(device: Any, isolation: str) -> Iterator[ReactorProcess]:
    """A server of the model above."""
    with (
        tempfile.TemporaryDirectory() as folder,
        reactor_run(Path(folder), MODEL.format(device=device), isolation=isolation) as server,
    ):
        yield server


def _ask(client: RawClient, command: str) -> Any:
    client.say(command, 1)
    return client.answer(1)["data"]["reply"]
