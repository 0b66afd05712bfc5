"""The process's own generators of random numbers belong to a session that is alone, and to no other (row 6 of worlds.md)."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.interface import InputState, ReactorModel, ReactorPipeline, Saves, VideoModel, get_ctx
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture
from tests.worlds.test_saving_worlds import with_store


def drawn() -> int:
    return (random.randrange(256) + np.random.randint(256)) % 256


class Roller(ReactorPipeline):
    output: Picture
    saves = Saves()
    fps = 10

    def inference(self):
        while True:
            yield picture(drawn())


class RollingLoop(ReactorModel):
    output: Picture
    saves = Saves()
    fps = 10

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(drawn())))


class RollingBlocks(VideoModel):
    saves = Saves()

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(drawn()))


@pytest.mark.parametrize("model", [Roller, RollingLoop, RollingBlocks])
async def test_a_session_that_is_alone_draws_again_what_it_drew(autojump_clock, folder, way, model):
    async with open_server(model, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            frames = await client.take(20)
            await client.worlds.rewind(step=frames[5].step)
            assert shown([await client.take_after(), *await client.take(8)]) == shown(frames[6:15])
            world = await client.worlds.save()
            expected = shown([frame for frame in await client.take(15) if frame.step > world.step])[:8]
        async with server.connect(world=world.id) as client:
            assert shown(await client.take(8)) == expected


class Choice(InputState):
    draws: bool = False


class Both(ReactorPipeline):
    """One of its sessions draws, and the other one does not."""

    state: Choice
    output: Picture
    saves = Saves()
    fps = 10
    max_sessions = 2

    def inference(self):
        while True:
            yield picture(drawn() if self.state.draws else 0)


async def test_of_two_sessions_one_goes_back_and_the_other_draws_on(autojump_clock, way):
    async with open_server(Both, settings=ServerSettings(isolation=way)) as server, server.connect() as one:
        await one.take(5)
        async with server.connect() as other:
            random.seed(5)
            np.random.seed(5)
            dice, more = random.Random(5), np.random.RandomState(5)
            await other.command("set_draws", draws=True)
            frames = [await other.take_after()]
            world = await one.worlds.save()
            for _ in range(3):
                await one.worlds.rewind(steps=3)
                frames += await other.take(4)
                await one.worlds.undo()
                await one.worlds.restore(world.id)
                frames += await other.take(4)
            assert shown(frames) == [(dice.randrange(256) + more.randint(256)) % 256 for _ in frames]
