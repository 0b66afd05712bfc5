"""The rate that `output.fps` has been set to is a part of the world. Exact, in virtual time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reactor_trio.interface import ReactorApp, ReactorModel, ReactorPipeline, Saves, event
from reactor_trio.testing import assert_restores, open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture


class Rated:
    saves = Saves("number")
    number = 0

    @event
    def rate(self, fps: float) -> None:
        self.output.fps = fps  # type: ignore[attr-defined]

    def next_picture(self) -> Any:
        self.number += 1
        return picture(self.number % 256)


class Undeclared(Rated, ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield self.next_picture()


class Pipeline(Undeclared):
    fps = 10


class Batched(Rated, ReactorPipeline):
    output: Picture
    fps = 10
    max_sessions = 2

    def batch_inference(self, models):
        return [model.next_picture() for model in models]


class App(Rated, ReactorApp):
    output: Picture
    fps = 10

    def generate(self, input):  # noqa: A002
        return Picture(main_video=self.next_picture())


class Loop(Rated, ReactorModel):
    output: Picture
    fps = 10

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(Picture(main_video=self.next_picture()))


def durations(frames: Any) -> list[float]:
    """How long each was shown but the last one, in seconds."""
    return [round(after.pts - before.pts, 3) for before, after in itertools.pairwise(frames)]


@pytest.mark.parametrize("model", [Pipeline, Undeclared, Batched, App, Loop])
@pytest.mark.parametrize("placement", [{}, {"isolation": "process"}])
async def test_a_rewind_to_before_a_rate_was_set_has_the_rate_of_then(autojump_clock, model, placement):
    async with open_server(model, step_cost=0.1 if model is Undeclared else 0.01, **placement) as server:
        async with server.connect() as client:
            slow = await client.take(12)
            await client.command("rate", fps=5)
            fast = [await client.take_after(), *await client.take(5)]
            assert durations(slow)[-5:] == [0.1] * 5
            assert durations(fast)[-3:] == [0.2] * 3
            then = await client.worlds.rewind(step=slow[8].step)
            again = [await client.take_after(), *await client.take(5)]
            assert durations(again)[-3:] == [0.1] * 3
            ages = {each.step: each.age for each in (await client.worlds.list()).moments}
            assert round(ages[again[4].step] - then.age, 3) == 0.5  # the world's own time
            await client.worlds.undo()
            more = [await client.take_after(), *await client.take(5)]
            assert durations(more)[-3:] == [0.2] * 3


def test_assert_restores_puts_the_rate_too():
    class Paced(Pipeline):
        def inference(self):
            while True:
                yield picture(round(self.output.fps) + int(bool(self.next_picture() is None)))

    assert_restores(Paced, commands=[(3, "rate", {"fps": 5.0}), (14, "rate", {"fps": 15.0})], at=(1, 8, 20))
