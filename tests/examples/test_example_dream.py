"""`examples/dream` in virtual time: the committed network follows the keys, a seed is a dream, the game comes on request."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import sys

import msgspec
import numpy as np
import pytest
import torch

from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.offline import rendered
from reactor_trio.testing import open_server

STEP = 1 / 15


@pytest.fixture
def dream(example):
    return example("dream", "scale=1", "threads=1")


@pytest.fixture
def open_dream(dream):
    return lambda: open_server(dream.model, config=dream.config, step_cost=STEP)


@pytest.fixture
def maze(dream):
    dream.model  # noqa: B018 - imports the example's modules
    return sys.modules["maze"]


@pytest.fixture
def place(maze):
    """Reads place and heading from a frame; the frame must be clear."""

    def read(frame):
        where, clarity = maze.read(frame.data[None].astype(np.float32) / 255)
        assert clarity[0] > 0.2
        return np.array([where.x[0], where.y[0]]), int(where.heading[0])

    return read


async def hold(client, key, frames):
    """Hold a key for so many frames, and return the last."""
    await client.command(f"key_{key}", down=True)
    await client.take_after()
    await client.take(frames - 1)
    await client.command(f"key_{key}", down=False)
    return await client.take_after()


async def test_left_and_right_turn_the_needle(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        (begun,) = await client.take(1)
        _, start = place(begun)
        _, right = place(await hold(client, "right", 12))
        assert 10 <= (right - start) % 32 <= 14
        _, back = place(await hold(client, "left", 24))
        assert 10 <= (start - back) % 32 <= 14


async def test_up_goes_where_the_needle_points_and_down_back(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        await client.command("set_seed", seed=4)
        start, heading = place(await client.take_after())
        ahead = np.array([np.cos(heading * np.pi / 16), np.sin(heading * np.pi / 16)])
        there, _ = place(await hold(client, "up", 8))
        assert 1.2 < (there - start) @ ahead < 2.0
        back, _ = place(await hold(client, "down", 8))
        assert np.hypot(*(back - start)) < 0.3


async def test_without_keys_the_dream_stands_still(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        first, heading = place((await client.take(10))[-1])
        later, same = place((await client.take(100))[-1])
        assert same == heading
        assert np.hypot(*(later - first)) < 0.3


def walk(dream, seed):
    """The pictures of a walk, and of the game beside it, with the same keys at the same steps each time."""
    script = [
        {"step": 0, "name": "set_seed", "arguments": {"seed": seed}},
        {"step": 0, "name": "set_temperature", "arguments": {"temperature": 0.3}},
        {"step": 0, "name": "set_true_game", "arguments": {"true_game": True}},
        {"step": 3, "name": "key_up", "arguments": {"down": True}},
        {"step": 6, "name": "key_right", "arguments": {"down": True}},
        {"step": 9, "name": "key_right", "arguments": {"down": False}},
    ]
    bundles = rendered(dream, script=script, frames=12)
    return np.array([(bundle.tracks["dream"], bundle.tracks["game"]) for bundle in bundles])


def test_the_same_seed_and_keys_give_the_same_pictures(dream):
    first, again, other = walk(dream, 3), walk(dream, 3), walk(dream, 9)
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], other[0])


async def test_a_new_seed_and_space_begin_again(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        start, _ = place((await client.take(1))[0])
        await client.command("set_seed", seed=2)
        other, _ = place(await client.take_after())
        assert np.hypot(*(other - start)) > 0.3
        await hold(client, "right", 20)
        await client.command("key_space")
        again, _ = place(await client.take_after())
        assert np.hypot(*(again - other)) < 0.1


async def test_the_game_is_a_second_track_that_is_sent_on_request(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        await client.take(10, "dream")
        assert client.statistics().tracks["game"].frames == 0
        await client.command("set_true_game", true_game=True)
        await hold(client, "right", 12)
        game = await client.take_after(track="game")
        for dream in await client.take(40, "dream"):
            if dream.step == game.step:
                break
        (there, heading), (dreamt, turned) = place(game), place(dream)
        assert np.hypot(*(there - dreamt)) < 0.3
        assert abs((heading - turned + 16) % 32 - 16) <= 1
        await client.command("set_true_game", true_game=False)
        await client.take_after(track="dream")
        shown = client.statistics().tracks["game"].frames
        await client.take(10, "dream")
        assert client.statistics().tracks["game"].frames == shown


async def test_let_it_dream_walks_alone_and_a_held_key_takes_over(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        await client.command("set_let_it_dream", let_it_dream=True)
        frames = (await client.take(150))[::10]
        places = np.array([place(frame)[0] for frame in frames])
        assert np.ptp(places, axis=0).max() > 1.5
        await client.command("key_left", down=True)
        await client.take_after()
        headings = [place(frame)[1] for frame in await client.take(10)]
        assert all((after - before) % 32 > 16 for before, after in itertools.pairwise(headings))


async def test_temperature_makes_the_memory_noisy(autojump_clock, open_dream):
    async def trembling(client):
        frames = np.array([frame.data.astype(float) for frame in await client.take(20)])
        return np.abs(np.diff(frames[10:], axis=0)).mean()

    async with open_dream() as server, server.connect() as client:
        calm = await trembling(client)
        await client.command("set_temperature", temperature=0.5)
        await client.take_after()
        assert await trembling(client) > 2 * calm


async def test_a_lost_dream_begins_again_where_it_was_last_clear(autojump_clock, open_dream, dream, place):
    class Network:
        def __init__(self, whole):
            self.whole, self.broken = whole, False

        def run(self, *arguments):
            return [np.zeros((1, 3, 64, 64), np.float32)] if self.broken else self.whole.run(*arguments)

    async with open_dream() as server:
        network = server.model.network = Network(server.model.network)
        async with server.connect() as client:
            before, heading = place((await client.take(5))[-1])
            network.broken = True
            await client.take(sys.modules[dream.model.__module__].PATIENCE - 1)
            network.broken = False
            assert (await client.next_message()).type == "woken"
            frames = await client.take(10)
            after, same = place(frames[-1])
            assert np.hypot(*(after - before)) < 0.3
            assert same == heading


def test_it_serves_two_and_keeps_their_places_beside_its_manifest(dream):
    assert dream.settings.max_sessions == 2
    assert dream.settings.worlds.store == str(dream.path / "worlds")
    ignored = (dream.path.parents[1] / ".gitignore").read_text().splitlines()
    assert "examples/dream/worlds/" in ignored


async def test_a_friend_dreams_on_from_here_and_a_place_is_there_tomorrow(autojump_clock, dream, tmp_path):
    settings = msgspec.structs.replace(dream.settings, worlds=WorldSettings(store=str(tmp_path / "worlds")))

    def serve():
        return open_server(dream.model, config=dream.config, settings=settings, step_cost=STEP)

    async with serve() as server, server.connect() as client:
        await client.take(10)
        await hold(client, "left", 8)
        world = await client.worlds.save("the corner")
        fork = await client.worlds.fork(world=world.id)
        async with server.connect(fork=fork.token) as friend:
            theirs = await friend.take(10)
            await hold(friend, "right", 5)
            await client.worlds.restore(world.id)
            await client.take_after()
            mine = await client.take(5)
        assert any(np.array_equal(frame.data, mine[0].data) for frame in theirs)
    async with serve() as server, server.connect() as client:
        await client.worlds.restore(world.id)
        await client.take_after()
        again = await client.take(1)
        assert any(np.array_equal(frame.data, again[0].data) for frame in theirs)


async def test_a_key_that_nobody_holds_any_more_is_up_also_where_the_dream_goes_back_to(autojump_clock, open_dream, place):
    async with open_dream() as server, server.connect() as client:
        await client.command("key_right", down=True)
        frames = await client.take(12)
        await client.command("key_right", down=False)
        await client.take_after()
        await client.worlds.rewind(step=frames[8].step)
        await client.take_after()
        first, heading = place((await client.take(5))[-1])
        later, same = place((await client.take(50))[-1])
        assert same == heading
        assert np.hypot(*(later - first)) < 0.3


def test_a_picture_of_the_game_says_where_it_is(maze):
    dice = np.random.default_rng(1)
    game = maze.Maze.scattered(50, dice)
    pictures = game.draw()
    assert pictures.shape == (50, 64, 64, 3)
    assert (pictures.min() >= 0, pictures.max() <= 1) == (True, True)
    where, clarity = maze.read(pictures)
    assert clarity.min() > 0.95
    assert np.abs(np.array([where.x - game.x, where.y - game.y])).max() < 0.02
    assert np.array_equal(where.heading, game.heading)
    _, clarity = maze.read(dice.random(pictures.shape, np.float32))
    assert clarity.max() < 0.2


def test_walls_stop_a_walker(maze):
    game = maze.Maze(np.array([1.5]), np.array([1.5]), np.array([16]))
    for _ in range(50):
        game.step(np.array([[True, False, False, False]]))
    assert 1 + maze.RADIUS <= game.x[0] < 1 + maze.RADIUS + maze.STEP
    assert game.free()[0]


def test_the_weights_are_small_and_name_their_licence(dream):
    weights = sys.modules[dream.model.__module__].WEIGHTS
    assert weights.stat().st_size < 10e6
    model = dream.model()
    model.load({})
    assert "Apache-2.0" in model.network.get_modelmeta().description


def test_the_training_goes_on_from_its_checkpoint(dream, tmp_path, monkeypatch, torch_threads):
    torch.set_num_threads(1)
    dream.model  # noqa: B018 - makes the example's modules importable
    spec = importlib.util.spec_from_file_location("dream_training", dream.path / "train.py")
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    for name, value in {"BATCH": 4, "POOL": 8, "FIRST_DREAM": 2, "FIRST": 1, "JUDGED": (2, 10)}.items():
        monkeypatch.setattr(train, name, value)
    options = argparse.Namespace(updates=4, every=2, seed=1, out=tmp_path, resume=False)
    train.train(options)
    train.train(argparse.Namespace(**vars(options) | {"updates": 6, "resume": True}))
    first, second, third = csv.DictReader((tmp_path / "log.csv").read_text().splitlines())
    assert [int(row["update"]) for row in (first, second, third)] == [2, 4, 6]
    assert float(third["loss"]) < float(first["loss"])
    assert float(third["processor_s"]) >= float(second["processor_s"])
    assert (tmp_path / "rollout.png").is_file()
