"""Sessions of models that emit by themselves which begin at a saved world, in virtual time (rows 9 and 18 of worlds.md)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from reactor_trio.interface import ClientInfo, Moment, connected, get_ctx, restored
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture
from tests.worlds.test_emitting_kinds import Blocks, Late, Loop
from tests.worlds.test_saving_worlds import with_store

#: what no session shows that begins at a world
OWN = 254


class Fresh(Loop):
    """Begins each session anew, as a loop does that thinks of one player after the other."""

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.number, self.plan = OWN, [0]
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(self.number)))
                self.advance()


class FreshBlocks(Blocks):
    def start_session(self) -> None:
        self.number, self.plan = OWN, [0]
        ctx = get_ctx()
        while not ctx.should_stop():
            ctx.emit_block(picture(self.number))
            Loop.advance(self)  # type: ignore[arg-type]


class Several(Fresh):
    max_sessions = 2


EACH = pytest.mark.parametrize("model", [Loop, Late, Fresh, Several, Blocks, FreshBlocks])


async def saved(client) -> tuple[Any, list[int]]:
    """A saved world, and the pictures that came after it."""
    await client.command("follow", plan=[3, 1, 4, 1, 5, 9, 2, 6])
    await client.take(20)
    world = await client.worlds.save()
    return world, shown([frame for frame in await client.take(50) if frame.step > world.step])[:25]


@EACH
async def test_the_first_frame_is_the_worlds_next_one(autojump_clock, folder, way, model):
    async with open_server(model, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world, to_come = await saved(client)
        for _ in range(2):
            async with server.connect(world=world.id) as client:
                frames = await client.take(25)
                assert shown(frames) == to_come
                assert frames[0].step == 0
                await client.worlds.rewind(step=frames[4].step)
                assert shown([await client.take_after(), *await client.take(5)]) == to_come[5:11]
        async with server.connect() as client:
            await client.take(3)  # a session that begins by itself shows what it has


async def test_a_fork_goes_on_beside_the_session_that_made_it(autojump_clock, folder, way):
    async with open_server(Several, step_cost=0.01, settings=with_store(folder, way)) as server, server.connect() as first:
        await first.command("follow", plan=[3, 1, 4, 1, 5, 9, 2, 6])
        await first.take(10)
        fork = await first.worlds.fork()
        one = shown(await first.take(60))
        async with server.connect(fork=fork.token) as second:
            begun = shown(await second.take(20))
            assert any(begun == one[at : at + 20] for at in range(40))
            one += shown(await first.take(30))
        untouched = Loop()
        untouched.number, untouched.plan = one[0], [3, 1, 4, 1, 5, 9, 2, 6]
        assert OWN not in one[:1]
        assert len(one) == 90


class Greets(Fresh):
    """Emits in a hook, which the put waits for."""

    @connected
    async def greet(self, client: ClientInfo) -> None:
        await self.emit(Picture(main_video=picture(OWN)))
        await trio.sleep(3)
        await self.emit(Picture(main_video=picture(OWN)))


async def test_hooks_that_emit_end_before_the_world_is_put_and_show_nothing(autojump_clock, folder, way):
    async with open_server(Greets, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world, to_come = await saved(client)
        async with server.connect(world=world.id) as client:
            assert shown(await client.take(25)) == to_come


class Silent(Loop):
    async def run(self) -> None:
        sessions = 0
        while True:
            await self.connected.wait()
            sessions += 1
            await trio.sleep(0 if sessions == 1 else 100)
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(self.advance())))


async def test_a_loop_that_emits_nothing_for_5_s_ends_the_session(autojump_clock, folder, way):
    async with open_server(Silent, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world, _ = await saved(client)
        await trio.sleep(1)  # until it has seen that the client is gone
        began, why = trio.current_time(), pytest.RaisesExc(Exception, match=r"no emit\(\) for 5 s")
        with pytest.RaisesGroup(why, allow_unwrapped=True, flatten_subgroups=True):
            async with server.connect(world=world.id) as client:
                await client.take(1)
        assert trio.current_time() - began < 10


@pytest.mark.parametrize("model", [Fresh, FreshBlocks, Greets])
@pytest.mark.parametrize("after", [0.0, 1.0, 3.05])
async def test_a_client_that_leaves_at_once_leaves_nothing_that_waits(autojump_clock, folder, way, model, after):
    async with open_server(model, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world, to_come = await saved(client)
        async with server.connect(world=world.id):
            await trio.sleep(after)
        async with server.connect() as client:
            await client.take(3)
        async with server.connect(world=world.id) as client:
            assert shown(await client.take(5)) == to_come[:5]


class Refuses(Fresh):
    @restored
    def refuse(self, saved: dict, moment: Moment) -> None:
        if moment.why == "fork":
            raise ValueError("no")


class RefusingBlocks(FreshBlocks):
    @restored
    def refuse(self, saved: dict, moment: Moment) -> None:
        if moment.why == "fork":
            raise ValueError("no")


@pytest.mark.parametrize("model", [Refuses, RefusingBlocks])
async def test_a_model_that_refuses_its_world_shows_nothing(autojump_clock, folder, way, model):
    frames: list[Any] = []
    async with open_server(model, step_cost=0.1, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world, _ = await saved(client)
        with pytest.RaisesGroup(pytest.RaisesExc(Exception, match="^no$"), allow_unwrapped=True, flatten_subgroups=True):
            async with server.connect(world=world.id) as client:
                frames += await client.take(1)
        assert frames == []
        async with server.connect() as client:
            assert shown(await client.take(1)) == [OWN]
