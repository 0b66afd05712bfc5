"""Models on a card, alone and served: frames a second, the time between two steps beside a bare loop's, and ranks."""

from __future__ import annotations

import inspect
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import trio

from benchmarks.gap import discard_until
from benchmarks.peers import ROOT, RawClient, reactor_run
from benchmarks.report import NeedsCard


def drawing(device):  # type: ignore[no-untyped-def]  # its source is a part of the model's
    """What draws a picture of the number of its step, and the tensor with that number."""
    import torch

    net = torch.nn.Conv2d(3, 16, 3, padding=1).to(device)
    noise = torch.rand(1, 3, 480, 640, device=device)
    number = torch.zeros((), device=device)
    times = 60 if device.type == "cuda" else 1  # a step takes longer than its turn to be shown, so it never waits for that

    def draw():  # type: ignore[no-untyped-def]
        number.add_(1)
        still = sum(net(noise).mean() for _ in range(times)) * 0
        return (number % 256 + still).expand(480, 640, 3).to(torch.uint8).clone()

    return draw, number


#: a model whose picture is the number of its step, and which times its steps alone, then served
SERVED = """\
import json, time
from pathlib import Path
import torch
from reactor_trio import *

class Picture(Output):
    main: Video

{drawing}
def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()

class Model(ReactorPipeline):
    output: Picture
    fps = max_fps = 1000

    def inference(self):
        device = torch.device("{device}")
        draw, number = drawing(device)

        with torch.inference_mode():
            kind, step = "{kind}", draw
            if kind == "compile":
                step = torch.compile(draw)
            for _ in range(3):
                step()
            if kind == "graph":
                wait(device)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    drawn = draw()
                step = lambda: graph.replay() or drawn
            wait(device)
            began = time.perf_counter()
            for _ in range({steps}):
                step()
                wait(device)
            alone = {steps} / (time.perf_counter() - began)
            number.zero_()
            began = time.perf_counter()
            for _ in range({steps}):
                yield Picture(main=step())
            served = {steps} / (time.perf_counter() - began)
            Path("taken").write_text(json.dumps([alone, served]))
            Path("taken").rename("taken.json")
            while True:
                yield None
"""


def plain(device: Any, quick: bool) -> Iterator[list[object]]:
    """A model of plain torch."""
    yield _served(device, "plain", quick)


def compiled(device: Any, quick: bool) -> Iterator[list[object]]:
    """The same through `torch.compile`."""
    if device.type != "cuda":
        raise NeedsCard
    yield _served(device, "compile", quick)


def graph(device: Any, quick: bool) -> Iterator[list[object]]:
    """The same as a CUDA graph, which writes each picture into the same memory."""
    if device.type != "cuda":
        raise NeedsCard
    yield _served(device, "graph", quick)


def isolated(device: Any, quick: bool) -> Iterator[list[object]]:
    """The plain one in a process of its own."""
    yield _served(device, "plain", quick, isolation="process")


def _served(device: Any, kind: str, quick: bool, **runtime: Any) -> list[object]:
    steps = 50 if quick else 500
    source = SERVED.format(device=device, kind=kind, steps=steps, drawing=inspect.getsource(drawing))
    with tempfile.TemporaryDirectory() as folder:
        with reactor_run(Path(folder), source, **runtime) as server, RawClient(server.port) as client:
            pictures = [client.picture() for _ in range(10)]
            discard_until(client, Path(folder) / "taken.json")
        alone, served = json.loads((Path(folder) / "taken.json").read_text())
    for packet in pictures:
        values = np.frombuffer(packet.payload, np.uint8)
        wanted = (packet.step + 1) % 256
        if values.min() != wanted or values.max() != wanted:
            raise ValueError(f"the picture of step {packet.step} has values {values.min()} to {values.max()}, not {wanted}")
    bare = 1 / statistics.median(trio.run(_bare_steps, device, steps)) if kind == "plain" else None
    beside = "" if bare is None else f", bare loop {bare:.0f} fps ({bare / served:.2f}x)"
    more = 1e6 * (1 / served - 1 / alone)
    return ["480p", f"alone {alone:.0f} fps, served {served:.0f} fps ({more:+.0f} us a step){beside}; pictures right"]


async def _bare_steps(device: Any, steps: int) -> list[float]:
    """Seconds of each step of a bare loop on Trio: a copy, an event behind it, and a thread that waits for that."""
    import torch

    draw, _ = drawing(device)
    times = []
    with torch.inference_mode():
        for _ in range(steps):
            began = time.perf_counter()
            draw().clone()
            if device.type == "cuda":
                event = torch.cuda.Event(blocking=True)
                event.record()
                await trio.to_thread.run_sync(event.synchronize)
            else:
                await trio.lowlevel.checkpoint()
            times.append(time.perf_counter() - began)
    return times


def ranks(device: Any, quick: bool) -> Iterator[list[object]]:
    """`examples/two_ranks` with two processes; and with a card a group of one by NCCL."""
    import torch

    source = (ROOT / "examples" / "two_ranks" / "waves.py").read_text()
    source += """
class Model(Waves):
    def load(self, config):
        super().load({"width": 320, "height": 192})
"""
    with tempfile.TemporaryDirectory() as folder:
        with reactor_run(Path(folder), source) as server, RawClient(server.port) as client:
            for _ in range(10):
                client.picture()
    yield ["two processes, gloo", "10 pictures"]
    if device.type == "cuda":
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        ones = torch.ones(4, device=device)
        torch.distributed.all_reduce(ones)
        torch.distributed.destroy_process_group()
        yield ["one process, NCCL", f"all_reduce gives {ones.tolist()}"]
