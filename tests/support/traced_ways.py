"""A server on a real socket, a client, one command and a few frames: `python -m tests.support.traced_ways` prints which
functions of the package ran, and on which threads, as JSON: {"module:Qualname": ["I/O loop", ...]}.

It is a program of its own, since a profile function sees only the threads that start after it was set.
"""

from __future__ import annotations

import json
import sys
import threading
from types import FrameType
from typing import Any

import anyio
import numpy as np

from reactor_trio.client import connect
from reactor_trio.interface import Output, ReactorPipeline, Video, event
from reactor_trio.server.runtime_host import RuntimeHost

seen: dict[tuple[str, str], set[str]] = {}


class Picture(Output):
    main_video: Video


class Traced(ReactorPipeline):
    """Frames of 720p, which are encoded in a worker thread, and a command that changes their grey."""

    output: Picture
    fps = 30
    grey = 0

    @event
    def paint(self, grey: int) -> None:
        self.grey = grey

    def inference(self):
        while True:
            yield np.full((720, 1280, 3), self.grey, np.uint8)


def profile(frame: FrameType, what: str, _argument: Any) -> None:
    if what == "call" and "reactor_trio" in frame.f_code.co_filename:
        seen.setdefault((frame.f_globals["__name__"], frame.f_code.co_qualname), set()).add(threading.current_thread().name)


async def talk(url: str) -> None:
    async with connect(url, video=["jpeg"]) as client:
        frames = client.frames()
        await anext(frames)
        await client.command("paint", grey=200)
        while (await anext(frames)).data.mean() < 150:
            pass


def thread_kind(name: str) -> str:
    if " from reactor_trio." in name:  # Trio names a worker thread after its task
        return "worker thread"
    return {"reactor-io": "I/O loop", "reactor-model": "model loop"}.get(name, name)


def main() -> None:
    threading.setprofile(profile)
    with RuntimeHost(Traced) as host:
        anyio.run(talk, host.url)
    threading.setprofile(None)
    functions: dict[str, set[str]] = {}
    for (module, name), threads in seen.items():
        functions.setdefault(f"{module.removeprefix('reactor_trio.')}:{name}", set()).update(map(thread_kind, threads))
    json.dump({name: sorted(threads) for name, threads in sorted(functions.items())}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
