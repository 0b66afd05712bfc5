"""The ceiling of an undeclared rate: what the viewers' encoders take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio import Output, ReactorPipeline, Video
from reactor_trio.pacing import Cadence, Ceiling
from reactor_trio.pacing.ceiling import HIGHER, TOLERATED, WINDOW
from reactor_trio.testing import open_session


def hand(ceiling: Ceiling, began: float, interval: float, outpaced: int) -> tuple[float, list[bool]]:
    """A window of frames, the first of them `outpaced`; when it ended, and what was said of each."""
    said = [ceiling.handed(began + interval * (n + 1), n < outpaced) for n in range(WINDOW)]
    return began + interval * WINDOW, said


def test_it_comes_down_to_what_was_taken_and_rises_again() -> None:
    ceiling = Ceiling()
    ceiling.handed(0.0, False)
    at, said = hand(ceiling, 0.0, 0.01, 20)
    assert said == [False] * (WINDOW - 1) + [True]
    assert ceiling.fps == pytest.approx(100 / 3)
    at, said = hand(ceiling, at, 3 / 100, 0)
    assert ceiling.fps == pytest.approx(100 / 3 * HIGHER)
    at, said = hand(ceiling, at, 3 / 100 / HIGHER, TOLERATED)
    assert ceiling.fps == pytest.approx(100 / 3 * HIGHER)
    assert not any(said)


def test_a_model_that_is_slower_than_the_ceiling_has_none() -> None:
    ceiling = Ceiling()
    ceiling.handed(0.0, False)
    at, _ = hand(ceiling, 0.0, 0.01, 15)
    assert ceiling.fps == pytest.approx(50)
    hand(ceiling, at, 0.1, 0)
    assert ceiling.fps == math.inf


def test_only_a_rate_that_is_not_declared_heeds_it() -> None:
    free, declared = Cadence(None, 1000), Cadence(40, 1000)
    for cadence in (free, declared):
        cadence.observe(0.001, 1)
        cadence.observe(0.001, 1)
        cadence.limit(25)
    assert (free.fps, declared.fps) == (25, 40)


class Picture(Output):
    main_video: Video


class Free(ReactorPipeline):
    output: Picture
    max_fps = 1000

    def inference(self) -> Any:
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


class Declared(Free):
    fps = 200


async def slow_worker(function: Any, argument: Any) -> Any:
    """An encoder that takes 20 ms."""
    await trio.sleep(0.02)
    return function(argument)


@pytest.mark.parametrize(("model", "made"), [(Free, (50, 60)), (Declared, (200, 200))])
async def test_a_free_model_runs_as_fast_as_its_encoder(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, model: type[Free], made: tuple[int, int]
) -> None:
    monkeypatch.setattr("reactor_trio.testing.server._here", slow_worker)
    async with open_session(model, step_cost=0.001, video=["jpeg"]) as client:
        await client.take(100)  # it has settled
        frames = await client.take(100)
    seconds = frames[-1].pts - frames[0].pts
    assert 45 <= len(frames) / seconds <= 51
    assert made[0] <= (frames[-1].seq - frames[0].seq) / seconds <= made[1]
