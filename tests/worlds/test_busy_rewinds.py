"""A rewind while the model, its queue or its client is busy. Exact, in virtual time."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import trio

from reactor_trio.client import Frame
from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.interface import ReactorPipeline, Saves, saving
from reactor_trio.offline import read_recording
from reactor_trio.testing import assert_replays, open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture
from tests.worlds.test_rewind import Counter, Settings

LONG = 2.0


class Ahead(Counter):
    """Makes a whole second of pictures at once."""

    def inference(self):
        while True:
            for _ in range(10):
                self.state._number += 1
            yield Picture(main_video=np.stack([picture((self.state._number - 9 + n) % 256) for n in range(10)]))


class Watch:
    """What a client was shown, and where among it its rewinds were answered."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.seen: list[Frame | str] = []

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        while True:
            self.seen += await self.client.take(1)

    async def rewind(self, **to: Any) -> Any:
        moment = await self.client.worlds.rewind(**to)
        self.seen.append("answered")
        return moment

    @property
    def after(self) -> list[Frame]:
        """The frames after the newest answer, without pictures of moments."""
        last = len(self.seen) - self.seen[::-1].index("answered")
        return [frame for frame in self.seen[last:] if not frame.meta.get("again")]


@asynccontextmanager
async def watched(model: type, **options: Any) -> AsyncGenerator[Watch, None]:
    async with open_server(model, **options) as server, server.connect() as client, trio.open_nursery() as nursery:
        watch = Watch(client)
        await nursery.start(watch.run)
        yield watch
        nursery.cancel_scope.cancel()


async def test_while_a_long_step_computes(autojump_clock, way):
    """The step that computes is of the abandoned future: nobody is shown its picture."""
    async with watched(Counter, step_cost=LONG, settings=ServerSettings(isolation=way)) as watch:
        await trio.sleep(5 * LONG + LONG / 2)  # the sixth step computes
        asked = trio.current_time()
        moment = await watch.rewind(step=1)
        assert trio.current_time() - asked <= LONG / 2 + 0.01
        await trio.sleep(2 * LONG - (trio.current_time() - asked) + 0.2)
        assert shown(watch.after)[:1] == [3]  # step 0 shows 1
        assert moment.step == 1
        await trio.sleep(3 * LONG)
        assert shown(watch.after) == list(range(3, 3 + len(watch.after)))


async def test_while_a_frame_waits_for_room_and_the_queue_is_full(autojump_clock, way):
    async with watched(Counter, settings=ServerSettings(isolation=way)) as watch:
        await trio.sleep(3.05)  # the model is ahead as far as its queue lets it
        await watch.rewind(step=4)
        await trio.sleep(1)
        assert shown(watch.after) == list(range(6, 6 + len(watch.after)))
        assert len(watch.after) >= 9


async def test_while_a_block_of_frames_is_shown(autojump_clock, way):
    """Ten pictures a step: those of the old future that are queued go, and the moment's next block begins whole."""
    async with watched(Ahead, settings=ServerSettings(isolation=way)) as watch:
        await trio.sleep(3.55)
        moment = await watch.rewind(step=0)
        await trio.sleep(2)
        assert moment.step == 0
        assert shown(watch.after) == list(range(11, 11 + len(watch.after)))


async def test_twice_within_one_step(autojump_clock, way):
    async with watched(Counter, step_cost=LONG, settings=ServerSettings(isolation=way)) as watch:
        await trio.sleep(6 * LONG + LONG / 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch.rewind(step=4))
            await trio.sleep(LONG / 4)
            nursery.start_soon(lambda: watch.rewind(step=1))
        await trio.sleep(3 * LONG)
        assert shown(watch.after)[0] == 3


async def test_steps_and_seconds_count_from_the_picture_on_screen_and_not_from_what_is_queued(autojump_clock):
    """The third step is short, so its block waits behind that of the second."""
    async with open_server(Ahead, step_cost=[0.8, 0.8, 0.1, 0.1]) as server, server.connect() as client:
        frames = await client.take(19)
        assert [frame.step for frame in frames] == [0] * 10 + [1] * 9
        assert server.model.state._number == 30  # the third step has ended
        assert (await client.worlds.rewind(steps=1)).step == 0


@pytest.mark.parametrize("model", [Counter, Ahead])
async def test_numbers_and_times_grow_through_a_hundred_rewinds_and_the_recording_replays(autojump_clock, tmp_path, model):
    chance = random.Random(11)
    frames: list[Frame] = []
    async with open_server(model, step_cost=0.01, record=str(tmp_path)) as server:
        async with server.connect() as client:
            for _ in range(100):
                frames += await client.take(chance.randrange(1, 5))
                await client.worlds.rewind(steps=chance.randrange(1, 6))
            frames += await client.take(5)
        await server.wait_left(client)
    for earlier, later in itertools.pairwise(frames):
        assert later.seq > earlier.seq
        assert later.pts > earlier.pts
    new = [frame.step for frame in frames if not frame.meta.get("again")]
    assert new == sorted(new)
    (path,) = tmp_path.glob("*.jsonl")
    assert sum(each.name == "reactor.rewind" for each in read_recording(path).commands) == 100
    await assert_replays(path, model)
    times = film_times(path.with_suffix(".mp4"))
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert len(times) == len(frames)  # the pictures of moments, too
    assert times[-1] == pytest.approx(frames[-1].pts - frames[0].pts)


def film_times(path: Path) -> list[float]:
    """When each picture of a film is shown, in the order in which it is decoded."""
    with av.open(str(path)) as film:
        return [frame.time for frame in film.decode(video=0)]


class Bare(ReactorPipeline):
    output: Picture
    state: Settings
    fps = 10

    async def inference(self):
        while True:
            await trio.sleep(0.1)
            self.state._number += 1
            yield picture(self.state._number % 256)


class Heavy(Bare):
    """A world that takes half as long to capture as a step takes to make."""

    saves = Saves()
    captured = 0

    @saving
    async def pack(self) -> dict[str, Any]:
        Heavy.captured += 1
        await trio.sleep(0.05)
        return {}


async def test_a_capture_that_costs_half_a_step_takes_a_twentieth_of_the_time(autojump_clock):
    seconds = 60
    counts = []
    for model in (Heavy, Bare):
        Heavy.captured = 0
        async with watched(model) as watch:
            await trio.sleep(seconds)
            counts.append(len(watch.seen))
        if model is Heavy:
            assert Heavy.captured * 0.05 <= 0.05 * seconds + 0.05
            assert Heavy.captured > 20
    assert counts[0] >= 0.95 * counts[1]
