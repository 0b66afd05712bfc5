"""Saved worlds of a model in a process of its own, in virtual time (rows 2 and 23 of worlds.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.crossing.file_pieces import CommandLane
from reactor_trio.crossing.flow_window import FlowLimits
from reactor_trio.crossing.messages import PiecesTaken
from reactor_trio.interface import InputState, session_started
from reactor_trio.testing import open_server
from tests.support.behaviour_models import raw_session, shown
from tests.worlds.test_rewind import Counter, landed, refusal
from tests.worlds.test_saving_worlds import files, with_store

#: more than is under way at a time
LARGE = 24 * 1024 * 1024


class Sums(InputState):
    speed: int = 1
    _number: int = 0
    _past: Any = None
    _dice: Any = None


class Heavy(Counter):
    """Has a large array, a generator of random numbers, and a row that two fields share."""

    state: Sums

    @session_started
    def fill(self) -> None:
        self.state._past, self.state._dice = np.zeros(LARGE // 8), np.random.default_rng()

    def inference(self):
        while True:
            state = self.state
            state._number = int(state._dice.integers(1, 250))
            state._past[state._number] += 1.0
            yield np.full((48, 64, 3), (state._number + int(state._past.sum())) % 256, np.uint8)


@pytest.mark.parametrize(("first", "then"), [("thread", "process"), ("process", "thread"), ("process", "process")])
@pytest.mark.parametrize("begins", [False, True])
async def test_a_world_goes_on_alike_wherever_it_was_saved_and_is_restored(autojump_clock, folder, first, then, begins):
    async with open_server(Heavy, settings=with_store(folder, first)) as server, server.connect() as client:
        await client.take(7)
        world = await client.worlds.save("here")
        expected = shown([frame for frame in await client.take(40) if frame.step > world.step])[:20]
    async with open_server(Heavy, settings=with_store(folder, then)) as server:
        if begins:
            async with server.connect(world=world.id) as client:
                assert shown(await client.take(20)) == expected
        else:
            async with server.connect() as client:
                await client.take(3)
                await client.worlds.restore(world.id)
                found = shown([await landed(client), *await client.take(18)])
                assert found in (expected[:19], expected[1:])


async def test_a_process_that_dies_in_the_middle_of_a_save_leaves_nothing(autojump_clock, folder):
    async with open_server(Heavy, settings=with_store(folder, "process")) as server:
        async with raw_session(server, "worlds=1") as peer:
            await peer.command("reactor.save", 1)
            assert (await peer.answer())["type"] == "reactor.ack"
            server.runtime.placement.process.kill()
            heard = []
            while not heard or heard[-1]["type"] != "reactor.bye":
                heard.append(await peer.hear())
        said = {each["type"]: each["data"] for each in heard}
        assert (said["reactor.saved"]["code"], said["reactor.bye"]["reason"]) == ("store_failed", "model_restarting")
        assert files(folder) == ["key"]
        await trio.sleep(60)  # until it is loaded again
        async with server.connect() as client:
            await client.worlds.save()
        assert files(folder) == [".world", "key"]


async def test_a_session_that_ends_while_its_world_crosses_keeps_nothing(autojump_clock, folder):
    async with open_server(Heavy, settings=with_store(folder, "process")) as server:
        async with raw_session(server, "worlds=1") as peer:
            await peer.command("reactor.save", 1)
            assert (await peer.answer())["type"] == "reactor.ack"
        async with server.connect() as client:
            await client.take(3)
    assert files(folder) == ["key"]


async def test_the_models_process_gets_no_key(autojump_clock, folder):
    settings = with_store(folder, "process", keys=("0" * 64,))
    async with open_server(Counter, settings=settings) as server, server.connect() as client:
        _, given, _ = server.runtime.placement.process._given
        assert given.worlds == WorldSettings(store=str(folder))
        world = await client.worlds.save()
        await client.worlds.restore(world.id)
    async with open_server(Counter, settings=with_store(folder, "thread", keys=("1" * 64,))) as server:
        async with server.connect() as client:
            with refusal("foreign_world"):
                await client.worlds.restore(world.id)


async def test_a_world_that_is_too_big_is_refused_before_it_crosses(autojump_clock, folder, way):
    async with open_server(Heavy, settings=with_store(folder, way, bytes=1024)) as server:
        async with raw_session(server, "worlds=1") as peer:
            await peer.command("reactor.save", 1)
            answer = await peer.answer()
            assert (answer["type"], answer["data"]["code"]) == ("reactor.error", "too_big")
        async with server.connect() as client:
            with refusal("too_big"):
                await client.worlds.fork()


async def test_commands_keep_their_order_behind_a_large_world_that_is_restored(autojump_clock, folder, way):
    async with open_server(Heavy, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            world = await client.worlds.save()
        async with raw_session(server, "worlds=1") as peer:
            await peer.command("jump", 1, to=3)
            await peer.command("reactor.restore", 2, world=world.id)
            await peer.command("jump", 3, to=9)
            assert [(await peer.answer())["id"] for _ in range(3)] == [1, 2, 3]


async def test_a_session_whose_world_comes_slowly_shows_no_frame_of_its_own_beginning(autojump_clock, folder, monkeypatch):
    taken = CommandLane.taken

    async def later(lane: CommandLane, report: PiecesTaken) -> None:
        await trio.sleep(1)
        taken(lane, report)

    async with open_server(Counter, settings=with_store(folder, "process")) as server:
        async with server.connect() as client:
            await client.command("jump", to=100)
            world = await client.worlds.save()
        monkeypatch.setattr("reactor_trio.crossing.world_pieces.PIECE", 1024)
        for module in ("crossing.file_pieces", "placement.isolation.session_relay"):
            monkeypatch.setattr(f"reactor_trio.{module}.PIECES", FlowLimits(items=1, size=1, reported=1, reported_size=1))
        async with trio.open_nursery() as nursery:
            monkeypatch.setattr(CommandLane, "taken", lambda *args: nursery.start_soon(later, *args))
            began = trio.current_time()
            async with server.connect(world=world.id) as client:
                assert shown(await client.take(2))[0] in (101, 102)
                assert trio.current_time() > began + 2
