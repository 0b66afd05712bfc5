"""The dream goes on from its saved world, in its session, and through a file in a fresh one (row 3 of worlds.md, in part).

It is stepped by hand.
"""

from __future__ import annotations

import io
from typing import Any

import pytest

from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.capture import capture, declared_world
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.put import prepare
from reactor_trio.worlds.unpacking import read_header, read_world

KEY = b"k" * 32


@pytest.fixture
def opened(example):
    manifest = example("dream", "scale=1", "threads=1")

    def make(seed: int) -> Any:
        model = manifest.model()
        model.load(manifest.config)
        model.state.seed = seed
        model.begin()
        return model

    return make


async def frames(model: Any, count: int) -> list[bytes]:
    """Of a new generator; the dream walks by itself, so its dice are drawn, and noise draws them too."""
    made, steps = [], model.inference()
    try:
        for number in range(count):
            if number == 2:
                model.key_left()
            if number == 5:
                model.key_left(down=False)
            made.append((await anext(steps)).dream.tobytes())
    finally:
        await steps.aclose()
    return made


@pytest.mark.parametrize("walks", [False, True])
async def test_the_dream_goes_on_from_its_saved_world(opened, walks):
    model = opened(seed=11)
    model.state.let_it_dream, model.state.temperature = walks, 0.3
    await frames(model, 10)
    world = capture(model, Copies(), step=10, steps=10, age=1.0, alone=False)
    expected = await frames(model, 12)
    assert len(set(expected)) == 12
    assert world.size < 300_000
    prepare(model, world, alone=False).assign()
    assert await frames(model, 12) == expected
    origin = Origin(model="dream:Dream", name="dream", version=1, schema_hash="")
    file = io.BytesIO(b"".join(pack(world, origin, KEY, most_bytes=1 << 20)))
    found = read_world(file, read_header(file, (KEY,), 1 << 20), declared_world(model).classes)
    fresh = opened(seed=5)
    await frames(fresh, 3)
    prepare(fresh, found, alone=False).assign()
    assert fresh.state._begun_with == 11
    assert fresh.state._wanderer.dice is fresh.state._dice is fresh.state._dreams.dice
    assert await frames(fresh, 12) == expected
