"""`examples/crafter` in virtual time: keys move the world, sessions have worlds of their own, a seed is a world."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

SMALL = ("size=72", "area=24", "seed=3")


@pytest.fixture
def crafter(example):
    return example("crafter", *SMALL)


@pytest.fixture
def open_world(crafter):
    """Opens a server of the small world; `threaded` on the real model thread."""
    return lambda **options: open_server(crafter.model, config=crafter.config, **options)


def player(server):
    return server.model.state._env._player


async def quiet(client):
    """No tick without a key, so that a test sees what its keys do."""
    await client.command("set_autoplay", autoplay=False)


async def test_load_makes_the_first_world_so_that_its_client_need_not_wait(autojump_clock, open_world, crafter, monkeypatch):
    env, made = vars(sys.modules[crafter.model.__module__])["Env"], []
    reset = env.reset
    monkeypatch.setattr(env, "reset", lambda self: (made.append(self), reset(self))[1])
    async with open_world() as server:
        assert len(made) == 1
        for count in (1, 2):
            async with server.connect() as client:
                await client.take(1)
                assert (len(made), server.model.state._env) == (count, made[-1])


async def test_the_seventeen_actions_have_keys(autojump_clock, open_world, crafter):
    async with open_world() as server, server.connect() as client:
        keys = [command["name"] for command in client.schema["commands"] if command["name"].startswith("key_")]
        assert len(keys) == 17
        await quiet(client)
        done = []
        step = server.model.state._env.step
        server.model.state._env.step = lambda action: (done.append(action), step(action))[1]
        await client.take(1)
        for key in keys:
            held = key in ("key_w", "key_a", "key_s", "key_d", "key_space")
            await client.command(key, **({"down": True} if held else {}))
            await client.take(1)
            if held:
                await client.command(key, down=False)
        assert sorted(done) == list(range(17))


@pytest.mark.parametrize("thread", [False, True])
async def test_a_key_changes_the_world_at_once(autojump_clock, open_world, thread):
    async with open_world(thread=thread) as server, server.connect() as client:
        await quiet(client)
        (opening,) = await client.take(1)
        assert opening.data.shape == (72, 72, 3)
        await trio.sleep(1)
        before, at = player(server).pos.copy(), trio.current_time()
        await client.command("key_s", down=True)
        await client.command("key_s", down=False)
        (moved,) = await client.take(1)
        assert trio.current_time() == at
        assert list(player(server).pos - before) == [0, 1]
        assert not np.array_equal(moved.data, opening.data)
        assert moved.command_id == 3  # the key came up before the step


async def test_a_held_key_walks_at_each_tick_until_it_comes_up(autojump_clock, open_world):
    async with open_world() as server, server.connect() as client:
        await quiet(client)
        await client.command("set_speed", speed=10)
        await client.take(1)
        walked = []
        step = server.model.state._env.step
        server.model.state._env.step = lambda action: (walked.append(action), step(action))[1]
        await client.command("key_d", down=True)
        await trio.sleep(0.55)
        await client.command("key_d", down=False)
        held = len(walked)
        assert held in (5, 6)  # at once, then at each tick of 0.1 s, seen within the 0.02 s of an idle turn
        assert set(walked) == {2}
        await trio.sleep(1)
        assert len(walked) == held


async def test_the_world_goes_on_by_itself_only_with_autoplay(autojump_clock, open_world):
    async with open_world() as server, server.connect() as client:
        await client.take(4)
        assert server.model.state._steps == 3
        await quiet(client)
        steps = server.model.state._steps
        await trio.sleep(5)
        assert server.model.state._steps == steps


async def test_achievements_and_vitals_are_sent(autojump_clock, open_world):
    async with open_world() as server, server.connect() as client:
        await quiet(client)
        message = await client.next_message()
        assert (message.type, message.data) == ("world", {"seed": server.model.state._env._seed})
        await client.command("key_n")
        message = await client.next_message()
        assert (message.type, message.data) == ("vitals", {"health": 9, "food": 9, "drink": 9, "energy": 9})
        player(server).inventory["sapling"] = 1
        await client.command("key_4")
        message = await client.next_message()
        assert message.type == "achievement"
        assert message.data == {"name": "place_plant", "unlocked": 1, "of": 22}


async def test_death_ends_the_world_and_any_key_begins_another(autojump_clock, open_world):
    async with open_world() as server, server.connect() as client:
        await quiet(client)
        seed = server.model.state._env._seed
        player(server).health = 0
        await client.command("key_n")
        kinds = [(await client.next_message()).type for _ in range(3)]
        assert kinds == ["world", "vitals", "game_over"]
        await client.command("key_n")
        message = await client.next_message()
        assert message.type == "world"
        assert message.data["seed"] != seed


async def play(client, keys):
    """The first picture and one for each key."""
    await quiet(client)
    pictures = await client.take(1)
    for key in keys:
        await client.command(key, down=True)
        await client.command(key, down=False)
        pictures += await client.take(1)
    return [picture.data.tobytes() for picture in pictures]


WALK = ["key_d", "key_s", "key_a", "key_space"] * 10  # 40 steps: past the 10 after which creatures come and go


async def test_a_seed_is_a_world(autojump_clock, open_world):
    async with open_world() as server:
        async with server.connect() as client:
            first = await play(client, WALK)
            seed = (await client.next_message()).data["seed"]
        async with server.connect() as client:
            other = await play(client, WALK)
            assert other[0] != first[0]
            await client.command("set_seed", seed=seed)
            await client.command("reset")
            assert await play(client, WALK) == first


async def test_a_session_leaves_nothing_to_the_next(autojump_clock, open_world):
    async with open_world() as server:
        async with server.connect() as client:
            await client.command("set_speed", speed=20)
            await client.command("key_d", down=True)
            await client.take(5)
            world = server.model.state._env
        async with server.connect() as client:
            await client.take(1)
            state = server.model.state
            assert state._env is not world
            assert (state.speed, state._held, state._pressed, state._achieved) == (5.0, [], [], set())


async def test_a_speed_out_of_bounds_is_refused(autojump_clock, open_world):
    async with open_world() as server, server.connect() as client:
        with pytest.raises(CommandError, match=re.escape("$.speed")):
            await client.command("set_speed", speed=1000)
