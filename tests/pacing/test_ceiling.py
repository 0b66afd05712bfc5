"""The cap of an undeclared frame rate: as many frames as the viewers' encoders take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio import ReactorPipeline
from reactor_trio.pacing import Cadence, FrameRateCap
from reactor_trio.pacing.frame_rate_cap import AIM, FAR, FRAMES, HIGHER, SECONDS
from reactor_trio.testing import Link, open_server, open_session


def test_far_above_the_aim_the_cap_drops_to_the_delivered_rate() -> None:
    ceiling = FrameRateCap()
    ceiling.handed(0.0, False)
    said = [ceiling.handed((n + 1) / 200, n % 4 != 0) for n in range(50)]
    assert said == [False] * 49 + [True]
    assert ceiling.fps == pytest.approx(200 * 13 / 50)


def near(ceiling: FrameRateCap, began: float, fps: float, outpaced: int) -> float:
    """Hand over one window of frames, the first `outpaced` of which replace another. Returns when the window ended."""
    frames = max(FRAMES, math.ceil(fps * SECONDS + 1e-6))
    for n in range(frames):
        ceiling.handed(began + (n + 1) / fps, n < outpaced)
    return began + frames / fps


def test_near_the_aim_the_cap_seeks_the_intended_share() -> None:
    ceiling = FrameRateCap()
    ceiling.fps = 100
    ceiling.handed(0.0, False)
    at = near(ceiling, 0.0, 100, 0)
    assert ceiling.fps == pytest.approx(100 * (1 + AIM))
    at = near(ceiling, at, 100, 0)
    assert ceiling.fps == pytest.approx(100 * (1 + AIM) * (1 + 2 * AIM))
    ceiling.fps = 100
    at = near(ceiling, at, 100, 3)
    assert ceiling.fps == pytest.approx(100 * (1 + AIM - 0.1))
    at = near(ceiling, at, 100, 0)
    assert ceiling.fps == pytest.approx(100 * (1 + AIM - 0.1) * (1 + AIM))


def test_above_the_aim_the_first_cap_is_the_delivered_rate() -> None:
    ceiling = FrameRateCap()
    ceiling.handed(0.0, False)
    near(ceiling, 0.0, 100, 3)
    assert ceiling.fps == pytest.approx(100 * (1 - 0.1))


def test_a_cap_drops_to_the_delivered_rate_only_far_above_the_aim() -> None:
    for outpaced, factor in ((11, 1 + AIM - FAR), (12, 1 - 12 / 44)):
        ceiling = FrameRateCap()
        ceiling.fps = 175
        ceiling.handed(0.0, False)
        near(ceiling, 0.0, 175, outpaced)  # a window of 44 frames
        assert ceiling.fps == pytest.approx(175 * factor)


def test_the_cap_never_rises_by_more_than_a_quarter() -> None:
    ceiling = FrameRateCap()
    ceiling.fps, at = 100, 0.0
    ceiling.handed(at, False)
    for _ in range(20):
        before = ceiling.fps
        at = near(ceiling, at, before, 0)
    assert ceiling.fps == pytest.approx(before * (1 + HIGHER))


def test_a_model_that_is_slower_than_the_cap_loses_it() -> None:
    ceiling = FrameRateCap()
    ceiling.fps = 100
    ceiling.handed(0.0, False)
    near(ceiling, 0.0, 45, 0)
    assert ceiling.fps == math.inf


def test_few_replaced_frames_cause_no_cap() -> None:
    ceiling = FrameRateCap()
    ceiling.handed(0.0, False)
    near(ceiling, 0.0, 100, 1)
    assert ceiling.fps == math.inf


def test_only_an_undeclared_rate_is_capped() -> None:
    free, declared = Cadence(None, 1000), Cadence(40, 1000)
    for cadence in (free, declared):
        cadence.observe(0.001, 1)
        cadence.observe(0.001, 1)
        cadence.limit(25)
    assert (free.fps, declared.fps) == (25, 40)


class Free(ReactorPipeline):
    output: Picture
    max_fps = 1000

    def inference(self) -> Any:
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


class Noise(Free):
    """Pictures that are large for their size."""

    def inference(self) -> Any:
        random = np.random.default_rng(1)
        while True:
            yield random.integers(0, 255, (16, 24, 3), np.uint8)


class Declared(Free):
    fps = 200


async def slow_worker(function: Any, argument: Any, limit: float = math.inf) -> Any:
    """An encoder that takes 20 ms."""
    await trio.sleep(0.02)
    return function(argument)


@pytest.mark.parametrize(("model", "made"), [(Free, (48, 58)), (Declared, (199, 201))])
async def test_a_free_model_runs_as_fast_as_its_encoder(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, model: type[Free], made: tuple[int, int]
) -> None:
    monkeypatch.setattr("reactor_trio.testing.memory_server._here", slow_worker)
    async with open_session(model, step_cost=0.001, video=["jpeg"]) as client:
        await client.take(300)  # the cap has settled
        frames = await client.take(200)
    seconds = frames[-1].pts - frames[0].pts
    assert 45 <= len(frames) / seconds <= 51
    assert made[0] <= (frames[-1].seq - frames[0].seq) / seconds <= made[1]


@pytest.mark.parametrize("other", [
    pytest.param({"video": ["none"]}, id="a viewer of messages alone"),
    pytest.param({"video": ["jpeg"], "link": (100_000, 0.02)}, id="a viewer on a thin link"),
])  # fmt: skip
async def test_a_viewer_that_receives_no_frames_does_not_lift_the_cap_of_a_busy_encoder(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, other: dict[str, Any]
) -> None:
    monkeypatch.setattr("reactor_trio.testing.memory_server._here", slow_worker)
    link = Link(*other["link"]) if "link" in other else None
    async with open_server(Noise, step_cost=0.001) as server, server.connect(video=["jpeg"]) as client:
        async with server.connect(role="viewer", video=other["video"], link=link):
            await client.take(300)
            frames = await client.take(200)
    seconds = frames[-1].pts - frames[0].pts
    assert 40 <= len(frames) / seconds <= 51
    assert (frames[-1].seq - frames[0].seq) / seconds <= 60
