"""Four clients of one model at a time, over real sockets and with the model on its real thread."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import trio

from reactor_trio import InputState, ModelMessage, Output, ReactorPipeline, Video, event, serve
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ConnectionRefused


class Picture(Output):
    main_video: Video


class Level(InputState):
    level: int = 0


class Heard(ModelMessage):
    level: int


class World(ReactorPipeline):
    state: Level
    output: Picture
    max_sessions = 4

    @event
    async def ask(self) -> int:
        await self.send(Heard(self.state.level))
        return self.state.level

    def inference(self):
        while True:
            yield np.full((8, 8, 3), self.state.level, np.uint8)


class Batched(World):
    def batch_inference(self, sessions):
        return [np.full((8, 8, 3), session.state.level, np.uint8) for session in sessions]


@pytest.mark.parametrize("model", [World, Batched])
async def test_each_of_four_clients_has_its_own(model):
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(partial(serve, model, port=0, settings=Settings(queue=0)))
        url = f"ws://127.0.0.1:{serving.port}/ws"
        together, ready = trio.Event(), trio.Semaphore(0)

        async def one(level):
            async with connect(url, video=["raw"]) as client:
                await client.command("set_level", level=level)
                assert await client.command("ask") == level
                ready.release()
                await together.wait()
                async for message in client.messages():
                    assert message.data == {"level": level}
                    break
                seen = 0
                async for frame in client.frames(latest=True):
                    assert set(np.unique(frame.data)) <= {0, level}
                    seen += frame.data[0, 0, 0] == level
                    if seen == 10:
                        break

        with trio.fail_after(120):
            async with trio.open_nursery() as clients:
                for level in range(1, 5):
                    clients.start_soon(one, level)
                for _ in range(4):
                    await ready.acquire()
                with pytest.raises(ConnectionRefused):
                    async with connect(url, video=["raw"]):
                        pass
                together.set()
        nursery.cancel_scope.cancel()
