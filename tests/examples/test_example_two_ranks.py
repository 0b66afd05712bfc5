"""`examples/two_ranks`: the halves of the lake meet, and two processes make the picture that one makes."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.client import connect
from reactor_trio.server.serve import serve
from reactor_trio.testing import open_server

STEPS = 25


@pytest.fixture
def waves(example):
    return example("two_ranks", "height=48", "width=64")


def moves(picture):
    """Whether the water is not still."""
    return picture.std(axis=(0, 1)).max() > 0


async def waved(client):
    """Pictures by their step, from the first that saw a drop near the middle."""
    await client.command("pointer_down", x=0.5, y=0.3)
    pictures = []
    async for frame in client.frames("main_video"):
        if pictures or moves(frame.data):
            pictures.append(frame.data.copy())
        if len(pictures) == STEPS:
            return pictures
    raise AssertionError("the frames ended")


async def in_one_process(waves):
    async with open_server(waves.model, config=waves.config, ranks=1) as server, server.connect() as client:
        await client.command("pointer_down", x=0.5, y=0.3)
        return [frame.data for frame in await client.take(STEPS + 4, within=10) if moves(frame.data)][:STEPS]


async def test_a_wave_spreads_evenly_and_dies_down(autojump_clock, waves):
    pictures = await in_one_process(waves)
    assert pictures[0].shape == (48, 64, 3)
    reached = [np.abs(picture.astype(int) - (40, 90, 140)).max(axis=(1, 2)) > 3 for picture in pictures]
    assert reached[0].sum() < reached[12].sum() < reached[-1].sum()


async def test_rows_that_cannot_be_shared_out_are_refused(waves):
    model = waves.model()
    model.world_size = 5
    with pytest.raises(ValueError, match="48 rows cannot be shared out evenly among 5 ranks"):
        model.load(waves.config)


async def test_two_processes_make_the_picture_that_one_makes(waves):
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(lambda **task: serve(waves, port=0, **task))
        async with connect(f"ws://127.0.0.1:{serving.port}/ws", video=["raw"]) as client:
            shown = await waved(client)
        nursery.cancel_scope.cancel()
    model = waves.model()
    model.load(waves.config)
    model.fill()
    model.pointer_down(0.5, 0.3)
    steps = model.inference()
    expected = [next(steps).main_video.numpy() for _ in range(STEPS * 4)]
    seen = [next(n for n, picture in enumerate(expected) if np.array_equal(picture, frame)) for frame in shown]
    assert seen == sorted(set(seen))  # a viewer may miss some
