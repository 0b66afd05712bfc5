"""What a handler emits while the client pauses the session: bounded in bytes, for all kinds that can be paused."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.interface import DistributedPipeline, ReactorApp, ReactorModel, ReactorPipeline, event
from reactor_trio.testing import open_server
from tests.support.models import Picture
from tests.support.resume_peers import returner

#: a bundle of one of these takes 769 KiB, 8 of them 6 MiB and a little; 10 emits of 8 are the last that fit into 64 MiB
FRAMES = np.zeros((8, 512, 512, 3), np.uint8)
FRAMES.flags.writeable = False
FIT = 10


class Painting:
    """`paint` emits, `big` emits more than fits."""

    output: Picture
    fps = 10

    @event
    async def paint(self, emits: int) -> None:
        for _ in range(emits):
            await self.emit(Picture(main_video=FRAMES))

    @event
    async def big(self) -> None:
        await self.emit(Picture(main_video=np.zeros((90, 512, 512, 3), np.uint8)))


class Generator(Painting, ReactorPipeline):
    def inference(self):
        while True:
            yield FRAMES[:2]


class AsyncGenerator(Painting, ReactorPipeline):
    async def inference(self):
        while True:
            await trio.lowlevel.checkpoint()
            yield FRAMES[:2]


class Batches(Painting, ReactorPipeline):
    max_sessions = 2

    def batch_inference(self, sessions):
        return [FRAMES[:2] for _ in sessions]


class Ranks(Painting, DistributedPipeline):
    def inference(self):
        while True:
            yield FRAMES[:2]


class App(Painting, ReactorApp):
    def generate(self, input):  # noqa: A002
        return Picture(main_video=FRAMES[:2])


CASES = [
    *((model, {}) for model in (Generator, AsyncGenerator, Batches, App)),
    (Generator, {"thread": True}), (App, {"isolation": "process"}), (Ranks, {"ranks": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "placement"), CASES)
async def test_a_paused_session_holds_a_bounded_number_of_emits_and_counts_the_rest(model, placement, autojump_clock):
    async with (
        open_server(model, step_cost=0.01, **placement) as server, server.connect(video=("none",)) as client,
    ):  # fmt: skip
        await trio.sleep(0.2)
        await client.transport.pause()
        [session] = server.sessions
        await server.settle()
        before = len(session.playout)
        for _ in range(20):
            await client.command("paint", emits=1)
        await server.settle()
        assert len(session.playout) - before == FIT * 8
        assert server.runtime.metrics.drops()["buffer", "held"] == (20 - FIT) * 8
        await client.command("big")
        assert server.runtime.metrics.drops()["buffer", "held"] == (20 - FIT) * 8 + 90
        await client.transport.pause()  # a client that pauses again and again gets no more room
        await client.transport.resume()
        await client.transport.pause()
        await client.command("paint", emits=FIT)
        assert len(session.playout) - before <= FIT * 8
        await client.transport.resume()
        await trio.sleep(10)
        await client.transport.pause()
        await client.command("paint", emits=FIT)  # all that was held has been shown
        assert server.runtime.metrics.drops()["buffer", "held"] == (20 - FIT) * 8 + 90 + FIT * 8


async def test_frames_that_a_single_step_shows_are_no_longer_held(autojump_clock):
    async with open_server(Generator, step_cost=0.01) as server, server.connect(video=("none",)) as client:
        await client.transport.pause()
        await client.transport.step()  # from here on the picture is not held
        for _ in range(3):
            await client.command("paint", emits=FIT)
            await trio.sleep(10)
        assert ("buffer", "held") not in server.runtime.metrics.drops()


class Loop(ReactorModel):
    """Emits all the time, and in a handler."""

    output: Picture
    fps = 10

    @event
    async def paint(self, emits: int) -> None:
        for _ in range(emits):
            await self.emit(Picture(main_video=FRAMES))

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(Picture(main_video=FRAMES))


@pytest.mark.parametrize("model", [Generator, App, Loop])
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_without_its_client_an_emit_waits_also_in_a_paused_session(model, isolation, autojump_clock):
    settings = {"isolation": isolation, "resume_window": 60}
    async with open_server(model, step_cost=0.01, **settings) as server, returner(server) as peer:
        if model is not Loop:
            await peer.command("reactor.pause", paused=True)
        for _ in range(20):
            await peer.command("paint", emits=10)
        await peer.vanish()
        [session] = server.sessions
        held = []
        for _ in range(3):
            await trio.sleep(15)
            await server.settle()
            held.append(len(session.playout))
        assert held == [held[0]] * 3
        assert held[0] <= FIT * 8
