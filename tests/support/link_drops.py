"""Clients whose link drops for 5 s, a hundred times in all: python tests/support/link_drops.py [--drops N] [--at-once N].

Each client has a server, a world and a relay of its own. It gives commands all the time, also while its link is away, and at
the end the world has applied each of them once and in order, and every message has come once and in order.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from reactor_trio.client import Client, connect
from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.server.runtime_host import RuntimeHost
from tests.support.adder import Adder
from tests.support.cut_link import CutLink, cut_link, port_of


class Figures(NamedTuple):
    comebacks: int
    commands: int
    seconds_lost: float
    problems: list[str]


async def drive(client: Client, link: CutLink, *, drops: int, away: float, holes: bool = False) -> Figures:
    """Drop the link so often, each time for `away` seconds; with `holes` every second time it swallows what is sent."""
    replies: dict[int, Any] = {}
    heard: list[tuple[int, int]] = []
    seqs: list[int] = []
    given = 0
    session = client.session_id

    async def add(number: int) -> None:
        replies[number] = await client.command("add", number=number)

    async def listen() -> None:
        async for message in client.messages():
            heard.append((message.data["count"], message.data["number"]))

    async def watch() -> None:
        async for frame in client.frames():
            seqs.append(frame.seq)

    async def wait(seconds: float) -> None:
        nonlocal given
        end = anyio.current_time() + seconds
        while anyio.current_time() < end:
            given += 1
            commands.start_soon(add, given)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as readers:
        readers.start_soon(listen)
        readers.start_soon(watch)
        async with anyio.create_task_group() as commands:
            await wait(0.2)
            for drop in range(drops):
                link.hole = holes and drop % 2 == 1
                await anyio.to_thread.run_sync(link.drop)
                await wait(away)
                await anyio.to_thread.run_sync(link.restore)
                before = client.statistics().comebacks
                while client.statistics().comebacks == before == drop:
                    await wait(0.1)
                await wait(0.3)
        with anyio.move_on_after(5):
            while len(heard) < given:  # noqa: ASYNC110 - a message has no event of its own here
                await anyio.sleep(0.01)
        readers.cancel_scope.cancel()
    expected = list(range(1, given + 1))
    problems = [
        what
        for what, wrong in {
            "another world": client.session_id != session,
            "a command was lost, doubled, or out of order": [replies.get(number) for number in expected] != expected,
            "a message was lost, doubled, or out of order": heard != [(number, number) for number in expected],
            "pictures out of order": seqs != sorted(set(seqs)),
            "no pictures": len(seqs) < drops,
        }.items()
        if wrong
    ]
    statistics = client.statistics()
    return Figures(statistics.comebacks, given, statistics.seconds_lost, problems)


def one_client(drops: int, away: float) -> Figures:
    settings = Settings(resume_window=30, limits=LimitSettings(handshakes_per_minute=0))
    with RuntimeHost(Adder, settings=settings) as host, cut_link(port_of(host.url)) as link:

        async def main() -> Figures:
            async with connect(f"http://127.0.0.1:{link.port}/", video=["raw"]) as client:
                return await drive(client, link, drops=drops, away=away, holes=True)

        return anyio.run(main, backend="trio")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drops", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--away", type=float, default=5.0)
    options = parser.parse_args(arguments)
    each = -(-options.drops // options.at_once)
    began = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as threads:
        done = list(threads.map(lambda _: one_client(each, options.away), range(options.at_once)))
    problems = [problem for figures in done for problem in figures.problems]
    print(
        f"{options.at_once} clients, {sum(f.comebacks for f in done)} drops of {options.away:g} s, "
        f"{sum(f.commands for f in done)} commands, {sum(f.seconds_lost for f in done):.1f} s without a link, "
        f"{time.monotonic() - began:.0f} s; problems: {problems or 'none'}"
    )
    return 1 if problems or sum(f.comebacks for f in done) < each * options.at_once else 0


if __name__ == "__main__":
    sys.exit(main())
