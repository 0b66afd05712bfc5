"""A client in a process of its own: watches until its standard input ends, then prints what it saw as one JSON document."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
import trio

from benchmarks.pictures import age
from reactor_trio.client import Client, connect
from reactor_trio.errors import CommandError, SessionEnded


class Packets(dict[int, tuple[int, float]]):
    """Each packet's size and the time of its arrival, by its number."""

    def __init__(self, client: Client) -> None:
        protocol = client._protocol
        receive = protocol.receive_packet

        def noting(data: Any, now: float) -> Any:
            received = receive(data, now)
            self[received.packet.seq] = (len(data), time.monotonic())
            return received

        protocol.receive_packet = noting  # type: ignore[method-assign]


async def count(url: str, codec: str, viewers: int, ask: str | None) -> dict[str, Any]:
    """Only receive, decoding nothing, one in control and the others beside it.

    `packets`: time, bytes, seq and whose it was; `told`: what the model's command `ask` replied in the end.
    """
    told = None
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        clients = [await enter(connect(url, video=[codec]))]
        clients += [await enter(connect(url, video=[codec], role="viewer", timeout=60)) for _ in range(viewers - 1)]
        packets = [Packets(client) for client in clients]
        print("ready", flush=True)
        await trio.to_thread.run_sync(_wait_for_end, abandon_on_cancel=True)
        codec = next(track.codec or "" for track in clients[0].tracks if track.direction == "out")
        if ask is not None:
            told = await clients[0].command(ask)
    seen = [(at, size, seq, who) for who, mine in enumerate(packets) for seq, (size, at) in mine.items()]
    return {"codec": codec, "packets": seen, "told": told}


async def watch(url: str, codec: str, role: Any, every: float) -> dict[str, Any]:
    """What was seen. `frames`: time, age, pts, seq, bytes, width, height, decoding; `commands`: time, seconds or None."""
    frames: list[Any] = []
    commands: list[list[float | None]] = []
    async with connect(url, video=[codec], role=role) as client, trio.open_nursery() as nursery:
        packets = Packets(client)

        async def command(number: int) -> None:
            sent = time.monotonic()
            commands.append(entry := [sent, None])
            try:
                await client.command("set_level", level=number % 100)
                entry[1] = time.monotonic() - sent
            except (CommandError, SessionEnded):
                return

        async def command_all() -> None:
            number = 0
            while True:
                nursery.start_soon(command, number)
                number += 1
                await anyio.sleep(every)

        async def take_all() -> None:
            try:
                async for frame in client.frames("main_video"):
                    now = time.monotonic()
                    size, arrived = packets.pop(frame.seq, (0, now))
                    height, width = frame.data.shape[:2]
                    frames.append([now, age(frame.data, now), frame.pts, frame.seq, size, width, height, now - arrived])
            except SessionEnded:
                return

        nursery.start_soon(take_all)
        if role == "control" and every:
            nursery.start_soon(command_all)
        print("ready", flush=True)
        await trio.to_thread.run_sync(_wait_for_end, abandon_on_cancel=True)
        ended = client.ended
        codec = next(track.codec or "" for track in client.tracks if track.name == "main_video")
        nursery.cancel_scope.cancel()
    return {"codec": codec, "frames": frames, "commands": commands, "ended": ended}


def _wait_for_end() -> None:
    with open(0, closefd=False) as given:
        given.read()


def main() -> None:
    """As said above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("codec")
    parser.add_argument("role")
    parser.add_argument("every", type=float, help="seconds between two commands; 0 for none")
    parser.add_argument("--count", type=int, metavar="N", help="N viewers that only receive")
    parser.add_argument("--ask", metavar="COMMAND", help="of the model, at the end; with --count")
    given = parser.parse_args()
    if given.count:
        seen = trio.run(count, given.url, given.codec, given.count, given.ask)
    else:
        seen = trio.run(watch, given.url, given.codec, given.role, given.every)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
