"""A client that lost its connection comes back to a model in another process, which has waited."""

from __future__ import annotations

import numpy as np
import trio

from reactor_trio.interface import Output, ReactorPipeline, Video, event
from reactor_trio.testing import open_server


class Picture(Output):
    main_video: Video


class World(ReactorPipeline):
    output: Picture
    fps = 10
    total = 0

    @event
    def add(self, value: int) -> int:
        self.total += value
        return self.total

    def inference(self):
        n = 0
        while True:
            yield np.full((4, 4, 3), n % 256, np.uint8)
            n += 1


async def test_the_world_of_a_model_process_waits(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30, isolation="process") as server:
        async with server.connect() as client:
            assert await client.command("add", value=2) == 2
            last = (await client.take(3))[-1]
            await client.vanish()
        await trio.sleep(20)
        async with server.connect(resume=client.resume_token) as again:
            frames = await again.take(3)
            assert frames[0].seq == last.seq
            assert [f.data.flat[0] for f in frames] == [2, 3, 4]
            assert await again.command("add", value=2) == 4
