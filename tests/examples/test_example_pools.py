"""`examples/pools` in virtual time: each session has its own pool, and it is the same in a batch as alone."""

from __future__ import annotations

from contextlib import AsyncExitStack

import numpy as np
import pytest

from reactor_trio.testing import open_server


@pytest.fixture
def open_pools(example):
    manifest = example("pools", "height=24", "width=32", "scale=2")
    return lambda **options: open_server(manifest.model, config=manifest.config, **options)


async def dropped(client, x, y):
    await client.command("set_rain", rain=False)
    await client.command("drop", x=x, y=y)
    frame = (await client.take(1))[0]
    while is_still(frame):
        (frame,) = await client.take(1, within=1)
    return [frame.data, *(frame.data for frame in await client.take(4))]


def is_still(frame):
    return frame.data.std(axis=(0, 1)).max() == 0


async def test_a_pool_is_its_sessions_own_and_the_same_in_a_batch_as_alone(autojump_clock, open_pools, monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", lambda: type("Dice", (), {"random": lambda self, n=None: 1.0})())
    async with open_pools(step_cost=0.02) as server, server.connect() as alone:
        expected = await dropped(alone, 0.25, 0.5)
    assert expected[0].shape == (48, 64, 3)
    async with open_pools(step_cost=0.02) as server, AsyncExitStack() as stack:
        still, one, other = [await stack.enter_async_context(server.connect()) for _ in range(3)]
        await still.command("set_rain", rain=False)
        pictures = await dropped(one, 0.25, 0.5)
        assert all(np.array_equal(*pair) for pair in zip(pictures, expected, strict=True))
        assert not np.array_equal((await dropped(other, 0.75, 0.5))[0], expected[0])
        assert all(is_still(frame) for frame in await still.take(20))


@pytest.mark.parametrize("command", ["pointer_down", "pointer_move"])
async def test_the_pointer_drops(autojump_clock, open_pools, monkeypatch, command):
    monkeypatch.setattr(np.random, "default_rng", lambda: type("Dice", (), {"random": lambda self, n=None: 1.0})())
    async with open_pools(step_cost=0.02) as server, server.connect() as client:
        # The page binds commands of these names to the pointer if they need x and y, and nothing else.
        needed = {each["name"]: each["schema"].get("required") for each in client.schema["commands"]}
        assert needed[command] == ["x", "y"]
        assert is_still((await client.take(1))[0])
        await client.command(command, x=0.25, y=0.5)
        assert not is_still((await client.take(5))[-1])
