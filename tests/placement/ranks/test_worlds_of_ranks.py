"""`reactor.rewind` of a model on several ranks: each keeps its own part of a world, at the same step. In virtual time."""

from __future__ import annotations

import gc
import logging
import random
from typing import Any

import numpy as np
import pytest
import trio
from tests.support.behaviour_models import shown

from reactor_trio import CommandError, DistributedPipeline, InputField, InputState, Output, Video, connected
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Moment, Saves, restored, saving
from reactor_trio.testing import open_server
from reactor_trio.worlds import World


class Picture(Output):
    main_video: Video


class State(InputState):
    speed: int = InputField(default=1, ge=0, le=9)


class Parts(DistributedPipeline):
    """Each rank has a number and a die of its own, which are its part of the world."""

    state: State
    output: Picture
    saves = Saves("part", "die")
    fps = 10
    ranks = 3
    fails = ""

    def load(self, config):
        self.told: list[tuple[int, str]] = []

    @property
    def part(self):
        return self.array

    @part.setter
    def part(self, array):
        if self.fails == "put":
            raise OSError("no room")
        self.array = array

    @connected
    def begin(self):
        self.array = np.full(self.size, 10 * self.rank, np.int64)
        self.die = random.Random(self.rank)

    size = 1

    @saving
    def pack(self) -> dict[str, Any]:
        if self.fails == "saving":
            raise OSError("the disk is gone")
        return {"rank": self.rank}

    @restored
    def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        assert saved == {"rank": self.rank}
        self.told.append((moment.step, moment.why))
        if self.fails == "restored":
            self.fails = ""
            self.part = self.part + 100
            raise OSError("no cache")

    def inference(self):
        while True:
            self.part = (self.part * 7 + self.state.speed + self.die.randrange(50)) % 251
            yield np.full((4, 6, 3), self.part[0], np.uint8)


def models(server):
    return [process.loaded for process in server.runtime.placement.process.ranks]


async def parts(server):
    """The numbers of all ranks, when those that come after rank 0 have done all."""
    await trio.sleep(1)
    return [int(model.part[0]) for model in models(server)]


@pytest.mark.parametrize("ranks", [2, 3])
async def test_each_rank_goes_on_as_if_there_had_been_no_rewind(autojump_clock, ranks):
    chance = random.Random(5)
    async with open_server(Parts, ranks=ranks) as server, server.connect() as client:
        await client.playback.pause()

        async def step(speed: int) -> list[int]:
            await client.command("set_speed", speed=speed)
            await client.playback.step()
            (value,) = shown([await client.take_after()])
            found = await parts(server)
            assert found[0] == value
            return found

        speeds = [chance.randrange(10) for _ in range(16)]
        made = [await step(speed) for speed in speeds]
        assert all(len({each[rank] for each in made}) > 8 for rank in range(ranks))
        for _ in range(6):
            to = chance.randrange(1, 14)
            await client.worlds.rewind(steps=15 - to)
            assert await parts(server) == made[to]
            assert [await step(speed) for speed in speeds[to + 1 :]] == made[to + 1 :]
        assert [model.told for model in models(server)] == [models(server)[0].told] * ranks


async def test_a_rewind_while_it_plays(autojump_clock):
    async with open_server(Parts) as server, server.connect() as client:
        frames = await client.take(30)
        await client.worlds.rewind(step=frames[9].step)
        assert shown([await client.take_after(), *await client.take(5)]) == shown(frames[10:16])


@pytest.mark.parametrize("rank", [0, 2])
async def test_a_saving_that_raises_on_one_rank_is_told_once_and_the_session_goes_on(autojump_clock, caplog, rank):
    async with open_server(Parts) as server:
        models(server)[rank].fails = "saving"
        async with server.connect() as client:
            with caplog.at_level(logging.WARNING):
                frames = await client.take(10)
                with pytest.raises(CommandError, match="@saving raised OSError: the disk is gone") as raised:
                    await client.worlds.rewind(steps=2)
                assert raised.value.code == "cannot_save"
                frames += await client.take(5)
            assert len(set(shown(frames))) > 8
    (line,) = [record.getMessage() for record in caplog.records if "@saving" in record.getMessage()]
    assert f"(at {__file__}:" in line
    assert ("rank 2: " in line) == (rank == 2)


@pytest.mark.parametrize("fails", ["saving", "put", "restored"])
@pytest.mark.parametrize("rank", [0, 2])
async def test_when_one_rank_cannot_go_back_none_does(autojump_clock, fails, rank):
    async with open_server(Parts) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        before = await parts(server)
        models(server)[rank].fails = fails
        with pytest.raises(CommandError) as raised:
            await client.worlds.rewind(steps=4)
        assert raised.value.code == {"saving": "cannot_save"}.get(fails, "restore_failed")
        assert await parts(server) == before
        models(server)[rank].fails = ""
        await client.worlds.rewind(steps=4)
        assert await parts(server) != before
        await client.worlds.undo()
        assert await parts(server) == before


@pytest.mark.parametrize("only_on", [None, 2])
async def test_the_parts_of_moments_that_are_gone_go_on_every_rank(autojump_clock, only_on):
    def alive() -> int:
        gc.collect()
        return sum(type(each) is World for each in gc.get_objects())  # isinstance asks modules that warn

    class Large(Parts):
        @property
        def size(self):
            return 1000 if only_on in (None, self.rank) else 1

    before = alive()
    async with open_server(Large, worlds={"ring": 600_000}) as server:
        async with server.connect() as client:
            await client.take(100)
            listed = await client.worlds.list()
            kept = len(listed.moments)
            assert 5 < kept <= 600_000 / 3 / 8000
            assert listed.bytes <= listed.most == 600_000 / 16 + 600_000 / 3 * 15 / 16  # of pictures, and of one rank
            await client.worlds.rewind(steps=5)
            await client.take(20)
            assert alive() - before <= 3 * (kept + 3)
        await trio.sleep(5)
        assert alive() == before


async def test_worlds_of_several_ranks_are_not_saved_yet_and_no_session_begins_at_one(autojump_clock):
    async with open_server(Parts) as server:
        async with server.connect() as client:
            await client.take(3)
            for ask in (client.worlds.save, client.worlds.fork):
                with pytest.raises(CommandError, match="on several ranks cannot be saved yet") as raised:
                    await ask()
                assert raised.value.code == "not_saveable"
            await client.worlds.rewind(steps=1)
        with pytest.raises(ConnectionRefused, match="not_saveable"):
            async with server.connect(world="w"):
                pass
