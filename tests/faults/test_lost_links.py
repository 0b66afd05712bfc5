"""Real sockets, a real server, and a relay between them that drops the link: the client goes on with the same world."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from reactor_trio.client import connect
from reactor_trio.server.host import RuntimeHost
from reactor_trio.server.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))
from cut_link import cut_link
from link_drops import Adder, drive


def port_of(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_link_that_is_cut_and_one_that_swallows(backend):
    """Twice for half a second; commands are given before, while it is away, and after."""
    with RuntimeHost(Adder, settings=Settings(resume_window=20)) as host, cut_link(port_of(host.url)) as link:

        async def main():
            async with connect(f"http://127.0.0.1:{link.port}/", video=["raw"]) as client:
                return await drive(client, link, drops=2, away=0.5, holes=True)

        figures = anyio.run(main, backend=backend)
    assert figures.comebacks == 2
    assert figures.problems == []


@pytest.mark.soak
def test_a_link_that_drops_for_5_s_a_hundred_times():
    from link_drops import main

    assert main(["--drops", "100"]) == 0
