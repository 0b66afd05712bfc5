"""One client session against a running server, in the environment of the system's own client; prints one JSON document.

It knows no system. A module in `clients/` offers

    async load()                                          optional: what its library loads with its first call; the others
                                                          load all when they are imported, and that is not connecting
    async join(url, on_frame, pause, second) -> handle    on_frame(pixels, width, height, channels), from any thread;
                                                          `pause`: seconds that each frame keeps its consumer busy;
                                                          `second`: join the session that another client has
    async set_brightness(handle, value)                   returns when it is acknowledged
    async close(handle)
    async statistics(handle) -> dict                      what the client itself says, for information: codec, bytes
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import math
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import stamp

#: one frame in so many, and at most so many of them, is kept to see how good the picture is
KEPT_EVERY, KEPT = 29, 8
PATIENCE = 30.0


class Watcher:
    """Takes frames from the client's thread, and tells the loop of the first one and of one that was waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.first = asyncio.Event()
        self.first_at = 0.0
        #: of each frame: arrival in s, number or None, ticks or None, grey level
        self.frames: list[tuple[float, int | None, int | None, float]] = []
        self.kept: list[tuple[bytes, int, int, int, int]] = []
        self._wanted: tuple[bool, asyncio.Future[float]] | None = None

    def on_frame(self, pixels: Any, width: int, height: int, channels: int) -> None:
        """A frame came."""
        at = time.monotonic()
        number, ticks, grey = stamp.read(pixels, width, height, channels)
        self.frames.append((at, number, ticks, grey))
        if number is None:
            return
        if not self.first_at:
            self.first_at = at
            self._loop.call_soon_threadsafe(self.first.set)
        if len(self.frames) % KEPT_EVERY == 0 and len(self.kept) < KEPT and grey > 240:
            self.kept.append((bytes(pixels), width, height, channels, number))
        wanted = self._wanted
        if wanted is not None and (grey > 166) == wanted[0]:
            self._wanted = None
            self._loop.call_soon_threadsafe(_resolve, wanted[1], at)

    async def brightness(self, bright: bool) -> float:
        """When the next bright or dark frame came."""
        future: asyncio.Future[float] = self._loop.create_future()
        self._wanted = (bright, future)
        return await asyncio.wait_for(future, 5)


def _resolve(future: asyncio.Future[float], at: float) -> None:
    if not future.done():
        future.set_result(at)


async def play(options: argparse.Namespace) -> dict[str, Any]:
    """Connect, warm up, watch, command, close."""
    client = importlib.import_module(f"clients.{options.client}")
    watcher = Watcher(asyncio.get_running_loop())
    if hasattr(client, "load"):
        await client.load()
    began = time.monotonic()
    handle = await client.join(options.url, watcher.on_frame, options.pause, options.second)
    connected = time.monotonic()
    await asyncio.wait_for(watcher.first.wait(), PATIENCE)
    print("playing", flush=True)
    result: dict[str, Any] = {"connect": connected - began, "first_frame": watcher.first_at - began}
    await asyncio.sleep(options.warm_up)
    before, cpu, from_ = await client.statistics(handle), server(options.pid)[0], time.monotonic()
    await asyncio.sleep(options.steady)
    until, (cpu_then, resident), after = time.monotonic(), server(options.pid), await client.statistics(handle)
    result |= {"from": from_, "until": until, "before": before, "after": after}
    result |= {"cpu": cpu_then - cpu, "resident": resident}
    result["commands"] = await _commands(client, handle, watcher, options)
    closing = time.monotonic()
    await client.close(handle)
    result["close"] = time.monotonic() - closing
    if options.again:
        result["again"] = (await rejoin(options))["first_frame"] - closing
    result["frames"] = watcher.frames
    result["psnr"] = [stamp.quality(*kept) for kept in watcher.kept]
    return result


async def _commands(client: Any, handle: Any, watcher: Watcher, options: argparse.Namespace) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    bright = True
    for pause in _pauses(options.commands, options.step, options.seed):
        await asyncio.sleep(pause)
        bright = not bright
        entry: dict[str, Any] = {"sent": time.monotonic(), "bright": bright}
        entries.append(entry)
        seen = asyncio.create_task(watcher.brightness(bright))
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(client.set_brightness(handle, stamp.HIGH if bright else stamp.LOW), 5)
            entry["acked"] = time.monotonic()
        except Exception as error:
            entry["error"] = repr(error)[:200]
        try:
            entry["seen"] = await seen
        except TimeoutError:
            entry["missed"] = True
    return entries


def _pauses(number: int, step: float, seed: int) -> list[float]:
    """At least 0.1 s each; what is above that hits each part of a step as often as any other, in random order."""
    dice = random.Random(seed)
    span = math.ceil(0.3 / step) * step
    parts = [(part + dice.random()) / number * span for part in range(number)]
    dice.shuffle(parts)
    return [0.1 + part for part in parts]


def server(pid: int) -> tuple[float, float]:
    """Processor seconds of a process, its ended threads included, and its resident memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def rejoin(options: argparse.Namespace) -> dict[str, Any]:
    """Try to connect, again and again, until a frame comes. When that was, on the machine's monotonic clock."""
    client = importlib.import_module(f"clients.{options.client}")
    began = time.monotonic()
    while True:
        watcher = Watcher(asyncio.get_running_loop())
        try:
            handle = await asyncio.wait_for(client.join(options.url, watcher.on_frame, 0, False), PATIENCE)
            accepted = time.monotonic()
            await asyncio.wait_for(watcher.first.wait(), PATIENCE)
        except Exception:
            await asyncio.sleep(0.05)
            continue
        await client.close(handle)
        return {"began": began, "accepted": accepted, "first_frame": watcher.first_at}


def main() -> None:
    """As said above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client")
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True, help="the server's process")
    parser.add_argument("--warm-up", type=float, default=4)
    parser.add_argument("--steady", type=float, default=16)
    parser.add_argument("--commands", type=int, default=30)
    parser.add_argument("--step", type=float, default=1 / 30, help="seconds of a step, over which commands are spread")
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--second", action="store_true")
    parser.add_argument("--again", action="store_true", help="connect once more after leaving")
    parser.add_argument("--rejoin", action="store_true")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(rejoin(options) if options.rejoin else play(options))), flush=True)


if __name__ == "__main__":
    main()
