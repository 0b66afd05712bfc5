"""`reactor.rewind` of a model on several ranks: each keeps its own part of a world, at the same step. In virtual time."""

from __future__ import annotations

import gc
import logging
import random
from typing import Any

import numpy as np
import pytest
import trio
from msgspec import structs
from tests.support.behaviour_models import raw_session, shown

from reactor_trio import CommandError, DistributedPipeline, InputField, InputState, Output, Video, connected
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Moment, Saves, restored, saving
from reactor_trio.placement.ranks.led_world import LedWorld
from reactor_trio.placement.ranks.world_parts import send_part
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
    async def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        if self.fails == "slow":
            await trio.sleep(4)
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


def worlds_alive() -> int:
    gc.collect()
    return sum(type(each) is World for each in gc.get_objects())  # isinstance asks modules that warn


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
    class Large(Parts):
        @property
        def size(self):
            return 1000 if only_on in (None, self.rank) else 1

    before = worlds_alive()
    async with open_server(Large, worlds={"ring": 600_000}) as server:
        async with server.connect() as client:
            await client.take(100)
            listed = await client.worlds.list()
            kept = len(listed.moments)
            assert 5 < kept <= 600_000 / 3 / 8000
            assert listed.bytes <= listed.most == 600_000 / 16 + 600_000 / 3 * 15 / 16  # of pictures, and of one rank
            await client.worlds.rewind(steps=5)
            await client.take(20)
            assert worlds_alive() - before <= 3 * (kept + 3)
        await trio.sleep(5)
        assert worlds_alive() == before


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "worlds"


def kept_in(folder: Any, ranks: int = 3, **worlds: Any) -> dict[str, Any]:
    return {"ranks": ranks, "worlds": {"store": str(folder), **worlds}}


class Mixed(Parts):
    """With a large array, more than one piece, that differs from rank to rank."""

    size = 400_000


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("begins", ["restore", "world", "fork"])
async def test_each_rank_goes_on_from_its_part_of_a_saved_world(autojump_clock, folder, ranks, begins):
    async with open_server(Mixed, **kept_in(folder, ranks)) as server, server.connect() as client:
        await client.take(7)
        await client.playback.pause()
        asks = {"fork": (await client.worlds.fork()).token} if begins == "fork" else {}
        world = await client.worlds.save("here")
        made = [await parts(server)]
        for _ in range(30):
            await client.playback.step()
            made.append(await parts(server))
    if begins == "world":
        asks = {"world": world.id}
    async with open_server(Mixed, **kept_in(folder, ranks)) as server, server.connect(**asks) as client:
        if begins == "restore":
            await client.take(3)
            await client.command("set_speed", speed=9)
            await client.worlds.restore(world.id)
        await client.take(5)
        await client.playback.pause()
        await client.playback.step()
        assert made.index(await parts(server)) > 4
        assert [model.told[-1][1] for model in models(server)] == ["restore" if begins == "restore" else "fork"] * ranks


async def test_a_kept_moment_is_saved_and_what_was_restored_is_a_moment_on_every_rank(autojump_clock, folder):
    async with open_server(Parts, **kept_in(folder)) as server, server.connect() as client:
        await client.playback.pause()
        made = []
        for _ in range(8):
            await client.playback.step()
            made.append(await parts(server))
        world = await client.worlds.save("before", step=3)
        assert world.step == 3
        assert await parts(server) == made[7]
        await client.worlds.restore(world.id)
        assert await parts(server) == made[3]
        await client.playback.step()
        assert await parts(server) == made[4]
        await client.worlds.rewind(steps=1)
        assert await parts(server) == made[3]
        again = await client.worlds.save("again")
        await client.worlds.undo()
        assert await parts(server) == made[4]
        await client.worlds.restore(again.id)
        assert await parts(server) == made[3]


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("fails", ["put", "restored"])
async def test_when_one_rank_cannot_restore_none_does(autojump_clock, folder, fails, rank):
    async with open_server(Parts, **kept_in(folder)) as server, server.connect() as client:
        await client.take(5)
        world = await client.worlds.save()
        await client.take(5)
        await client.playback.pause()
        before = await parts(server)
        models(server)[rank].fails = fails
        with pytest.raises(CommandError) as raised:
            await client.worlds.restore(world.id)
        assert raised.value.code == "restore_failed"
        assert await parts(server) == before
        models(server)[rank].fails = ""
        await client.worlds.restore(world.id)
        assert await parts(server) != before


@pytest.mark.parametrize("rank", [0, 2])
async def test_a_rank_that_cannot_go_back_waits_for_those_that_take_long(autojump_clock, rank):
    """In a step, ranks that differ for two seconds count as out of step, and are ended."""
    async with open_server(Parts) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        before = await parts(server)
        for model in models(server):
            model.fails = "restored" if model.rank == rank else "slow"
        with pytest.raises(CommandError) as raised:
            await client.worlds.rewind(steps=4)
        assert raised.value.code == "restore_failed"
        assert await parts(server) == before
        assert server.runtime.placement.process.ranks[0].loaded is models(server)[0]


WRONG_PARTS = {
    "one too few": lambda parts: parts[:1], "one too many": lambda parts: (*parts, parts[0]),
    "an empty one": lambda parts: (parts[0], parts[1][:0]),
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG_PARTS.values(), ids=WRONG_PARTS)
async def test_a_world_without_one_part_for_each_rank_is_damaged(autojump_clock, folder, monkeypatch, change):
    async with open_server(Parts, **kept_in(folder)) as server, server.connect() as client:
        await client.take(5)
        with monkeypatch.context() as patched:
            whole = LedWorld.with_all_parts

            async def changed(led, world):
                world = await whole(led, world)
                return structs.replace(world, others=change(world.others))

            patched.setattr(LedWorld, "with_all_parts", changed)
            world = await client.worlds.save()
        with pytest.raises(CommandError, match="one part for each rank") as raised:
            await client.worlds.restore(world.id)
        assert raised.value.code == "damaged_world"
        assert len(set(shown(await client.take(10)))) > 5


async def test_a_part_that_its_rank_cannot_read_is_refused_and_nothing_changes(autojump_clock, folder, monkeypatch):
    async with open_server(Parts, **kept_in(folder)) as server, server.connect() as client:
        await client.take(5)
        world = await client.worlds.save()
        await client.playback.pause()
        before = await parts(server)
        with monkeypatch.context() as patched:
            patched.setattr("reactor_trio.placement.ranks.leading_performer.send_part", _send_nonsense)
            with pytest.raises(CommandError, match="rank 1: the file of the world is damaged") as raised:
                await client.worlds.restore(world.id)
            assert raised.value.code == "damaged_world"
        assert await parts(server) == before
        await client.playback.step()
        await client.worlds.restore(world.id)


def _send_nonsense(link, packed):
    send_part(link, [memoryview(bytes(100))])


async def test_a_world_of_another_number_of_ranks_is_foreign(autojump_clock, folder):
    async with open_server(Parts, **kept_in(folder, 2)) as server, server.connect() as client:
        world = await client.worlds.save()
    async with open_server(Parts, **kept_in(folder, 3)) as server:
        async with server.connect() as client:
            with pytest.raises(CommandError, match="another world size: 2, and here is 3") as raised:
                await client.worlds.restore(world.id)
            assert raised.value.code == "foreign_world"
        with pytest.raises(ConnectionRefused, match="foreign_world"):
            async with server.connect(world=world.id):
                pass


@pytest.mark.parametrize("most", [8 * Mixed.size - 1, 16 * Mixed.size])
async def test_the_parts_of_all_ranks_together_may_not_be_too_big(autojump_clock, folder, most):
    async with open_server(Mixed, **kept_in(folder, bytes=most)) as server, server.connect() as client:
        await client.take(3)
        with pytest.raises(CommandError) as raised:
            await client.worlds.save()
        assert raised.value.code == "too_big"
        assert len(set(shown(await client.take(10)))) > 5


@pytest.mark.parametrize("ring", [300_000, 3_000], ids=["a ring of some moments", "a ring too small for one"])
async def test_what_was_saved_or_restored_is_kept_on_no_rank_when_nothing_goes_back_to_it(autojump_clock, folder, ring):
    before = worlds_alive()
    async with open_server(Parts, **kept_in(folder, ring=ring)) as server:
        async with server.connect() as client:
            await client.take(5)
            for _ in range(12):
                world = await client.worlds.save()
                await client.worlds.restore(world.id)
                await client.worlds.forget(world.id)
                await client.take(2)
                kept = len((await client.worlds.list()).moments)
                assert worlds_alive() - before <= 3 * (kept + 4)
        await trio.sleep(5)
        assert worlds_alive() == before


async def test_rewinds_without_a_step_between_them_keep_one_world_to_undo_on_every_rank(autojump_clock):
    before = worlds_alive()
    async with open_server(Parts) as server, server.connect() as client:
        await client.take(20)
        await client.playback.pause()
        for steps in range(1, 16):
            await client.worlds.rewind(step=20 - steps)
        kept = len((await client.worlds.list()).moments)
        assert worlds_alive() - before <= 3 * (kept + 3)


async def test_a_weight_that_differs_on_one_rank_makes_the_world_foreign(autojump_clock, folder):
    class Named(Parts):
        changed = ""

        def world_identity(self):
            return f"part {self.rank}{self.changed if self.rank == 2 else ''}"

    async with open_server(Named, **kept_in(folder)) as server, server.connect() as client:
        world = await client.worlds.save()
        await client.worlds.restore(world.id)
    Named.changed = "!"
    async with open_server(Named, **kept_in(folder)) as server, server.connect() as client:
        with pytest.raises(CommandError, match="another weights") as raised:
            await client.worlds.restore(world.id)
        assert raised.value.code == "foreign_world"


async def test_a_session_that_ends_in_the_middle_of_a_save_or_a_restore_leaves_the_ranks_in_step(autojump_clock, folder):
    async with open_server(Mixed, **kept_in(folder)) as server:
        async with server.connect() as client:
            await client.take(2)
            world = await client.worlds.save()
            made = await parts(server)
        for name, data in [("reactor.save", {}), ("reactor.restore", {"world": world.id})]:
            for passes in (0, 2, 5, 9, 15, 30):
                async with raw_session(server, "worlds=1") as peer:
                    await peer.command(name, 1, **data)
                    for _ in range(passes):
                        await trio.lowlevel.checkpoint()
                await trio.sleep(5)
        async with server.connect(world=world.id) as client:
            await client.playback.pause()
            again = await client.worlds.save()
            await client.worlds.restore(again.id)
            assert len(await parts(server)) == len(made)
