"""Real sockets, a real server, and a relay between them that drops the link: the client goes on with the same world."""

from __future__ import annotations

import re

import anyio
import anyio.to_thread
import pytest
from tests.support.adder import Adder
from tests.support.cut_link import cut_link, port_of
from tests.support.link_drops import drive

from reactor_trio.cli.watching import watch
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.server.runtime_host import RuntimeHost


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_resumes_after_a_cut_link_and_after_one_that_swallows_bytes(backend):
    """Twice for half a second; commands are given before, while it is away, and after."""
    with RuntimeHost(Adder, settings=Settings(resume_window=20)) as host, cut_link(port_of(host.url)) as link:

        async def main():
            async with connect(f"http://127.0.0.1:{link.port}/", video=["raw"]) as client:
                return await drive(client, link, drops=2, away=0.5, holes=True)

        figures = anyio.run(main, backend=backend)
    assert figures.comebacks == 2
    assert figures.problems == []


def test_the_headless_client_tells_of_it():
    with RuntimeHost(Adder, settings=Settings(resume_window=20)) as host, cut_link(port_of(host.url)) as link:

        async def main():
            lines, lost, resumed = [], anyio.Event(), anyio.Event()

            def report(line):
                lines.append(line)
                if line.startswith("lost"):
                    lost.set()
                elif line.startswith("resumed"):
                    resumed.set()

            async def watching(_client):
                await anyio.to_thread.run_sync(link.drop)
                await lost.wait()
                await anyio.to_thread.run_sync(link.restore)
                await resumed.wait()

            await watch(f"http://127.0.0.1:{link.port}/", video=["raw"], report=report, watching=watching)
            return lines

        lines = anyio.run(main, backend="trio")
    assert lines[1] == "lost: the connection broke; coming back"
    assert re.fullmatch(r"resumed after \d\.\d s", lines[2])


@pytest.mark.soak
def test_a_link_that_drops_for_5_s_a_hundred_times():
    from tests.support.link_drops import main

    assert main(["--drops", "100"]) == 0
