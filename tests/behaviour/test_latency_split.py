"""Where the time from a command to its picture went, from a server's own words and the client's clock."""

from __future__ import annotations

import numpy as np

from reactor_trio.interface import InputField, InputState, ReactorPipeline
from reactor_trio.testing import open_server
from tests.support.models import Main


class Settings(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class Model(ReactorPipeline):
    state: Settings
    output: Main

    def inference(self):
        while True:
            yield Main(np.full((4, 4, 3), self.state.level, np.uint8))


async def test_the_parts_make_the_whole(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server, server.connect(feedback=True) as client:
        await client.take(2)
        await client.command("set_level", level=7)
        while (await client.take())[0].command_id != 1:
            pass
        latency = client.statistics().latency
        assert latency.total.count == 1
        assert latency.step.p50 == 0.25
        parts = (latency.wait, latency.step, latency.queue, latency.encode, latency.network, latency.decode)
        assert abs(sum(part.p50 for part in parts) - latency.total.p50) < 1e-5
        assert all(part.p50 >= 0 for part in parts)
