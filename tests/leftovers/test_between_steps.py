"""What the model's side holds of a step that is over, while it waits for the time of the next one."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import trio

from reactor_trio.execution.state_changes import StateChanges
from reactor_trio.interface import ReactorApp, ReactorPipeline
from reactor_trio.media import Chunk
from reactor_trio.offline.executor import PipelineExecutor
from reactor_trio.testing import open_server
from tests.leftovers.held import standing_still
from tests.support.models import Picture


class Generator(ReactorPipeline):
    output: Picture
    fps = 1

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


class Batch(ReactorPipeline):
    output: Picture
    fps = 1

    def batch_inference(self, sessions):
        return [np.zeros((2, 2, 3), np.uint8) for _ in sessions]


@pytest.mark.parametrize("kind", [Generator, Batch])
async def test_no_batch_of_frames_is_held_between_two_steps(autojump_clock, kind):
    """A batch may be large, and lie on a device. What is queued of it are its frames."""
    with standing_still():
        async with open_server(kind) as server, server.connect() as client:
            await client.take(3)
            await trio.sleep(0.5)
            assert [one for one in gc.get_objects() if type(one) is Chunk] == []
            await client.take(1)


class Latent:
    pass


class App(ReactorApp):
    output: Picture
    fps = 1

    def load(self, config):
        self.made = []

    async def process_input(self):
        return None

    def generate(self, given):
        latent = Latent()
        self.made.append(weakref.ref(latent))
        return latent

    async def process_output(self, outcome):
        return Picture(main_video=np.zeros((2, 2, 3), np.uint8))


async def test_what_an_app_has_generated_is_not_held_between_two_steps(autojump_clock):
    with standing_still():
        async with open_server(App) as server, server.connect() as client:
            await client.take(3)
            await trio.sleep(0.5)
            assert len(server.model.made) >= 3
            assert [made() for made in server.model.made if made() is not None] == []


def test_an_executor_gives_the_outcome_away_and_holds_none():
    with PipelineExecutor(App) as executor:
        executor.connect()
        result = next(executor)
        assert isinstance(result.outcome.result, Latent)
        del result
        assert [made() for made in executor.model.made] == [None]


def test_a_setting_that_may_change_is_not_held_after_a_look():
    """An uploaded file is one: the state alone keeps it."""

    class Upload(list[int]):
        pass

    watch, state = StateChanges({"value": b"0"}), SimpleNamespace(value=5)
    assert watch.changes(state, 0.0) == {"value": b"5"}
    state.value = Upload([1])
    left = weakref.ref(state.value)
    assert watch.changes(state, 0.0) == {"value": b"[1]"}
    del state.value
    assert left() is None
    state.value = 5
    assert watch.changes(state, 0.0) == {"value": b"5"}
