"""Which forms `inference()` may have, and what it may yield."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.errors import ModelFailed, OutputError
from reactor_trio.interface import Idle, InputState, Output, ReactorPipeline, Video
from reactor_trio.testing import open_server, open_session
from tests.behaviour.test_mistaken_output import line_of
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture


class State(InputState):
    go: bool = False


@in_all_placements
async def test_a_plain_generator_delivers_frames(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            for value in range(10):
                yield picture(value)

    async with open_session(Model, step_cost=0.25, **placement) as client:
        frames = await client.take(4)
    assert shown(frames) == [0, 1, 2, 3]
    assert [frame.seq for frame in frames] == [0, 1, 2, 3]
    assert [frame.step for frame in frames] == [0, 1, 2, 3]
    assert [frame.pts for frame in frames] == [0.25, 0.5, 0.75, 1.0]


@in_all_placements
async def test_an_async_generator_delivers_frames_and_may_await(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(ReactorPipeline):
        state: State

        async def inference(self):
            for value in range(10):
                await trio.sleep(0.25)
                yield picture(value)

    async with open_session(Model, **placement) as client:
        frames = await client.take(4)
    assert shown(frames) == [0, 1, 2, 3]
    assert [frame.pts for frame in frames] == [0.25, 0.5, 0.75, 1.0]


class PlainFunction(ReactorPipeline):
    state: State

    def inference(self):
        return [picture(0)]


class Coroutine(ReactorPipeline):
    state: State

    async def inference(self):
        return picture(0)


class NoInference(ReactorPipeline):
    state: State


class AssignedFunction(ReactorPipeline):
    state: State

    def load(self, config):
        self.inference = lambda: picture(0)


@pytest.mark.parametrize("model", [PlainFunction, Coroutine, NoInference, AssignedFunction])
async def test_an_inference_that_is_no_generator_stops_the_start(
    model: type[ReactorPipeline], autojump_clock: object
) -> None:
    with pytest.raises(ModelFailed) as failed:
        async with open_server(model):
            raise AssertionError("the server is up")
    assert isinstance(failed.value.__cause__, TypeError)
    told = "has no inference(): define it" if model in (NoInference, AssignedFunction) else "there is no `yield` in "
    assert told in str(failed.value.__cause__)


def striped() -> np.ndarray:
    return np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)


class Wrapped(ReactorPipeline):
    state: State

    def inference(self):
        while True:
            yield Picture(main_video=striped())


class Bare(ReactorPipeline):
    state: State

    def inference(self):
        while True:
            yield striped()


@in_all_placements
async def test_a_wrapped_frame_arrives_unchanged_on_its_track(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_session(Wrapped, step_cost=0.25, **placement) as client:
        (frame,) = await client.take(1, "main_video")
    assert frame.track == "main_video"
    assert frame.data.dtype == np.uint8
    assert np.array_equal(frame.data, striped())


async def test_a_bare_frame_is_the_same_as_a_wrapped_one(autojump_clock: object) -> None:
    async with open_session(Wrapped, step_cost=0.25) as client:
        (wrapped,) = await client.take()
    async with open_session(Bare, step_cost=0.25) as client:
        (bare,) = await client.take()
    assert np.array_equal(wrapped.data, bare.data)
    assert (bare.track, bare.seq, bare.pts, bare.step) == (wrapped.track, wrapped.seq, wrapped.pts, wrapped.step)


async def test_a_bare_frame_from_a_model_with_two_tracks_is_ambiguous(autojump_clock: object) -> None:
    class Both(Output):
        left: Video
        right: Video

    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield picture(0)

    async with open_session(Model, step_cost=0.25) as client:
        with pytest.raises(TypeError, match=r"^a bare frame is ambiguous: this model has left, right; yield"):
            await client.take()


async def test_a_bare_frame_for_two_output_classes_is_ambiguous(autojump_clock: object) -> None:
    class One(Output):
        one: Video

    class Two(Output):
        two: Video

    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield picture(0)

    async with open_session(Model, step_cost=0.25) as client:
        with pytest.raises(TypeError, match="ambiguous: this model has one, two"):
            await client.take()


async def test_an_output_annotation_takes_the_ambiguity_away(autojump_clock: object) -> None:
    class One(Output):
        one: Video

    class Two(Output):
        two: Video

    class Model(ReactorPipeline):
        state: State
        output: Two

        def inference(self):
            while True:
                yield picture(7)

    async with open_session(Model, step_cost=0.25) as client:
        (frame,) = await client.take()
    assert (frame.track, shown([frame])) == ("two", [7])


def batch(first: int, count: int) -> np.ndarray:
    return np.stack([picture(first + i) for i in range(count)])


@in_all_placements
async def test_a_batch_is_played_one_frame_per_interval(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State
        fps = 8

        def inference(self):
            for first in range(0, 100, 4):
                yield batch(first, 4)

    async with open_session(Model, step_cost=0.25, **placement) as client:
        frames = await client.take(12)
    assert shown(frames) == list(range(12))
    assert [frame.seq for frame in frames] == list(range(12))
    assert [frame.pts for frame in frames] == [0.25 + i / 8 for i in range(12)]
    assert [frame.step for frame in frames] == [i // 4 for i in range(12)]


async def test_a_batch_larger_than_the_buffer_loses_no_frame(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State
        fps = 8
        buffer_size = 2

        def inference(self):
            for first in range(0, 100, 4):
                yield batch(first, 4)

    async with open_session(Model, step_cost=0.25) as client:
        frames = await client.take(12)
    assert [frame.seq for frame in frames] == list(range(12))
    assert [frame.pts for frame in frames] == [0.25 + i / 8 for i in range(12)]


async def test_a_batch_of_one_is_one_frame(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            for value in range(10):
                yield batch(value, 1)

    async with open_session(Model, step_cost=0.25) as client:
        frames = await client.take(3)
    assert [frame.data.shape for frame in frames] == [(2, 2, 3)] * 3
    assert shown(frames) == [0, 1, 2]
    assert [frame.pts for frame in frames] == [0.25, 0.5, 0.75]


async def test_an_empty_batch_is_no_frame_and_no_error(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield np.zeros((0, 2, 2, 3), np.uint8)
            yield Picture(main_video=np.zeros((0, 2, 2, 3), np.uint8))
            for value in range(10):
                yield picture(value)

    async with open_session(Model, step_cost=0.25) as client:
        frames = await client.take(2)
    assert shown(frames) == [0, 1]
    assert [frame.seq for frame in frames] == [0, 1]
    assert [frame.step for frame in frames] == [0, 1]
    assert [frame.pts for frame in frames] == pytest.approx([0.29, 0.54])  # each empty batch waits as Idle does


NOTHING = pytest.mark.parametrize("nothing", [Idle, Idle(), None], ids=["Idle", "Idle()", "None"])


@NOTHING
async def test_idle_and_none_deliver_no_frame_and_commands_are_handled(
    nothing: object, autojump_clock: object
) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            while True:
                yield picture(9) if self.state.go else nothing

    async with open_session(Model, step_cost=0.25) as client:
        await trio.sleep_until(1)
        with trio.move_on_at(10):
            await client.take()
            raise AssertionError("a frame came of nothing")
        await client.command("set_go", go=True)
        assert trio.current_time() == 10  # the command does not wait for the 20 ms to pass
        frames = await client.take(2)
    assert shown(frames) == [9, 9]  # in particular no black frame came before
    assert [frame.seq for frame in frames] == [0, 1]
    assert [frame.pts for frame in frames] == [10.25, 10.5]


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_model_that_yields_none_from_the_beginning_is_told_so_once(
    how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Model(ReactorPipeline):
        state: State

        async def inference(self):
            yield Idle
            while True:
                yield  # here

    async with open_session(Model, **how):
        await trio.sleep(4.9)
        assert caplog.records == []
        await trio.sleep(10)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("inference has yielded None for 5 s, so")
    assert "so nothing is shown: yield a frame, as in `yield frame`, or `yield Idle` to wait on purpose (at " in line
    assert f"{line_of(Model.inference, 'here')}) (docs/reference/errors.md#yields-none)" in line


async def test_who_has_shown_a_frame_or_idles_may_yield_none(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Shows(ReactorPipeline):
        state: State

        def inference(self):
            yield picture(1)
            while True:
                yield

    class Idles(ReactorPipeline):
        state: State

        def inference(self):
            while True:
                yield Idle

    for model in (Shows, Idles):
        async with open_session(model):
            await trio.sleep(20)
    assert caplog.records == []


@NOTHING
async def test_an_idle_generator_is_resumed_about_fifty_times_a_second(
    nothing: object, autojump_clock: object
) -> None:
    class Model(ReactorPipeline):
        state: State

        def load(self, config):
            self.asked = []

        def inference(self):
            while True:
                self.asked.append(trio.current_time())
                yield nothing

    ticks = 0
    async with open_server(Model) as server, server.connect():
        while trio.current_time() < 1.005:
            await trio.sleep(0.015)  # the rest of the loop runs
            ticks += 1
        assert server.model.asked == pytest.approx([i * 0.02 for i in range(51)])
    assert ticks == 67


async def test_an_idle_generator_is_resumed_at_once_when_a_command_comes(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def load(self, config):
            self.asked = []

        def inference(self):
            while True:
                self.asked.append((trio.current_time(), self.state.go))
                yield Idle

    async with open_server(Model) as server, server.connect() as client:
        await trio.sleep_until(0.0625)
        await client.command("set_go", go=True)
        await trio.sleep_until(0.0675)
        assert server.model.asked[-2:] == [(pytest.approx(0.06), False), (0.0625, True)]


async def test_idle_steps_do_not_influence_the_rate(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State
        fps = 50

        async def inference(self):
            await trio.sleep(3)
            yield Idle
            value = 0
            while True:
                await trio.sleep(0.25)
                yield picture(value)
                value += 1
                if value == 5:
                    await trio.sleep(2)
                    yield None

    async with open_server(Model) as server, server.connect() as client:
        frames = await client.take(5)
        assert server.model.output_buffer.fps == pytest.approx(4)
        frames += await client.take(3)
        assert server.model.output_buffer.fps == pytest.approx(4)
    assert [frame.pts - frames[0].pts for frame in frames[:5]] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [frame.pts - frames[5].pts for frame in frames[5:]] == pytest.approx([0, 0.25, 0.5])


#: the line of the yield
PLACE = r" \(at \S+test_generator_forms\.py:\d+\)"


@pytest.mark.parametrize(("value", "name"), [(5, "int"), ("frame", "str"), (b"", "bytes"), ([1], "list")])
async def test_a_yield_of_another_kind_ends_the_session(value: object, name: str, autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield value

    async with open_session(Model, step_cost=0.25) as client:
        with pytest.raises(TypeError, match=rf"(?m)^a model yields an Output, a frame, Idle or None, not {name}{PLACE}$"):
            await client.take()
        assert client.ended == "model_error"


async def test_none_for_a_track_is_an_error_that_names_the_track(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield Picture(main_video=None)

    async with open_session(Model, step_cost=0.25) as client:
        with pytest.raises(OutputError) as error:
            await client.take()
        assert client.ended == "model_error"
    says = "track main_video: expected uint8 (H, W, 3) or (N, H, W, 3), got NoneType"
    assert re.fullmatch(re.escape(says) + PLACE, str(error.value))


@pytest.mark.parametrize(
    ("frame", "given"),
    [
        (
            np.zeros((2, 2, 3), np.float32),
            "float32 (2, 2, 3); scale to 0..255 and cast to uint8: (frame * 255).astype(np.uint8)",
        ),
        (np.zeros((2, 2, 4), np.uint8), "uint8 (2, 2, 4); it looks like RGBA: frame[..., :3]"),
        (np.zeros((2, 2), np.uint8), "uint8 (2, 2); it looks grey: np.stack([frame] * 3, axis=-1)"),
        (np.zeros((1, 1, 2, 2, 3), np.uint8), "uint8 (1, 1, 2, 2, 3)"),
        (np.zeros((3, 2, 2), np.uint8), "uint8 (3, 2, 2); it looks channels-first: transpose(1, 2, 0)"),
        (np.zeros((0, 2, 3), np.uint8), "uint8 (0, 2, 3)"),
        (np.zeros((2, 2, 3), np.int16), "int16 (2, 2, 3); frame.clip(0, 255).astype(np.uint8)"),
    ],
    ids=["float32", "four-channels", "2-D", "5-D", "channels-first", "no-rows", "int16"],
)
async def test_a_frame_that_does_not_fit_is_refused_before_anything_is_sent(
    frame: np.ndarray, given: str, autojump_clock: object
) -> None:
    class Both(Output):
        good: Video
        bad: Video

    class Model(ReactorPipeline):
        state: State

        def inference(self):
            yield Both(good=picture(1), bad=frame)

    async with open_session(Model, step_cost=0.25) as client:
        with pytest.raises(OutputError) as error:
            await client.take(1, "good")
        assert client.ended == "model_error"
    says = f"track bad: expected uint8 (H, W, 3) or (N, H, W, 3), got {given}"
    assert re.fullmatch(re.escape(says) + PLACE, str(error.value))
