"""The Python client at the gate works as at a single server, with more slots."""

from __future__ import annotations

import anyio
import trio
from tests.support.gate_kit import HOST, open_gate

from reactor_trio.client import connect, handshake

GATE = "ws://localhost:8080"


async def test_three_clients_of_two_replicas(autojump_clock, monkeypatch):
    """Two get a place at once, the third when the first has left. Each gets its pictures from its replica."""
    queued, admitted = [], []

    async with open_gate(2) as gate:

        async def dial(url, ssl_context):
            await anyio.lowlevel.checkpoint()
            host, port = url.hostname, url.port or 80
            if port == 8080:
                return gate.stream()
            assert host == HOST
            return await gate.servers[port % 80]._open_stream()  # a port of 0 is the scheme's own, 80

        monkeypatch.setattr(handshake, "connect_stream", dial)
        options = {"video": ["raw"], "on_admitted": admitted.append}
        async with connect(GATE, **options) as first:
            async with connect(GATE, **options) as second, trio.open_nursery() as nursery:
                assert admitted == [f"ws://{HOST}:0/ws", f"ws://{HOST}:1/ws"]
                assert gate.free() == [0, 0]
                third_came = trio.Event()

                @nursery.start_soon
                async def third():
                    async with connect(GATE, on_queued=lambda *at: queued.append(at), **options) as client:
                        assert (await anext(client.frames())).data.shape == (4, 6, 3)
                        third_came.set()

                await trio.sleep(1)
                assert queued == [(1, 1)]
                for client in (first, second):
                    assert (await anext(client.frames())).data.shape == (4, 6, 3)
                await second.aclose()
                await third_came.wait()
                assert admitted[2:] == [f"ws://{HOST}:1/ws"]
