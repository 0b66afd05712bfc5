"""Pacing in exact virtual time: rate, buffer, lateness, sound, and slow clients. Seconds count from the session's begin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.errors import OutputError, SessionEnded
from reactor_trio.interface import Audio, Output, ReactorModel, ReactorPipeline, Video, event
from reactor_trio.pacing.cadence import DEFAULT_FPS
from reactor_trio.pacing.step_margin import LEAST
from reactor_trio.testing import PipelineExecutor, open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture


class Counting(ReactorPipeline):
    """Yields pictures of 0, 1, 2, ... and notes when each step began and how fast frames were played then."""

    output: Picture

    def load(self, config):
        self.config = config
        self.begins = []
        self.rates = []

    @event
    def rate(self, fps: float):
        self.output_buffer.set_fps(fps)

    def inference(self):
        size = self.config.get("batch")
        number = 0
        while True:
            self.begins.append(trio.current_time())
            self.rates.append(self.output_buffer.fps)
            yield picture(number % 256) if size is None else np.stack([picture(number + i) for i in range(size)])
            number += size or 1


class Script(ReactorModel):
    """A run loop that plays the script of its test once."""

    output: Picture
    fps = 10
    buffer_size = 4

    def load(self, config):
        self.script = config["script"]

    @event
    def flush(self):
        self.output_buffer.flush()

    @event
    def clear(self):
        self.output_buffer.clear()

    @event
    def rate(self, fps: float):
        self.output_buffer.set_fps(fps)

    async def run(self):
        await self.connected.wait()
        await self.script(self)
        await trio.sleep_forever()


def batch(*values):
    return np.stack([picture(value) for value in values])


def times(frames):
    return [frame.pts for frame in frames]


def gaps(frames):
    return np.diff(times(frames))


# ---- rate ------------------------------------------------------------------------------------------------------------


def test_thirty_frames_a_second_and_four_places_unless_declared():
    assert (ReactorModel.fps, ReactorModel.buffer_size) == (30, 4)
    assert (Counting.fps, Counting.buffer_size, Counting.max_fps) == (30, 4, 60)


async def test_an_undeclared_rate_is_thirty_until_a_step_was_timed(autojump_clock):
    async with open_server(Counting, step_cost=0.25) as server:
        assert server.model.output_buffer.fps == 30
        async with server.connect() as client:
            await client.take(1)
            assert server.model.rates[0] == 30


@in_all_placements
async def test_ten_seconds_at_24_fps_are_240_even_frames(autojump_clock, placement):
    class Film(Counting):
        fps = 24

    async with open_session(Film, step_cost=0.01, **placement) as client:
        frames = await client.take(245)
    in_time = [frame for frame in frames if frame.pts < 10]
    assert abs(len(in_time) - 240) <= 1
    assert gaps(frames) == pytest.approx(1 / 24, abs=2e-6)
    assert shown(frames) == list(range(245))


async def test_set_fps_sets_the_next_interval(autojump_clock):
    class Fast(Counting):
        fps = 20

    async with open_session(Fast, step_cost=0.01) as client:
        await client.take(10)
        await client.command("rate", fps=10)
        await client.take(2)  # the one on screen and the one queued
        assert gaps(await client.take(20)) == pytest.approx(0.1, abs=2e-6)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, -math.inf])
async def test_set_fps_refuses_zero_negative_and_non_finite_rates(autojump_clock, wrong):
    async def script(model):
        with pytest.raises(ValueError, match="finite number above 0"):
            model.output_buffer.set_fps(wrong)
        assert model.output_buffer.fps == 10
        await model.emit(picture(1))

    async with open_server(Script, config={"script": script}) as server:
        with pytest.raises(ValueError, match="finite number above 0"):
            server.model.output_buffer.set_fps(wrong)
        async with server.connect() as client:
            await client.take(1)


@pytest.mark.parametrize(("declared", "rate"), [(None, 20), (25, 20), (12.5, 12.5)])
async def test_half_a_second_for_ten_frames_is_twenty_a_second(autojump_clock, declared, rate):
    class Reports(ReactorModel):
        output: Picture
        if declared is not None:
            fps = declared

        async def run(self):
            await self.connected.wait()
            for _ in range(3):
                await self.emit(batch(*range(10)), compute_time=0.5)
                self.rate = self.output_buffer.fps
            await trio.sleep_forever()

    async with open_server(Reports) as server, server.connect() as client:
        frames = await client.take(30)
        assert server.model.rate == rate
        assert gaps(frames) == pytest.approx(1 / rate, abs=2e-6)


@pytest.mark.parametrize("seconds", [0.0, 1e-12])
async def test_a_compute_time_of_zero_gives_a_finite_rate(autojump_clock, seconds):
    class Instant(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            while True:
                await self.emit(picture(1), compute_time=seconds)

    async with open_server(Instant) as server, server.connect() as client:
        assert gaps(await client.take(50)) == pytest.approx(1 / 60, abs=2e-6)
        assert server.model.output_buffer.fps == 60
    async with open_session(Instant, max_fps=20) as client:
        assert gaps(await client.take(50)) == pytest.approx(1 / 20, abs=2e-6)


@pytest.mark.parametrize(
    ("declared", "cost", "rate"),
    [(10, 0.25, 4), (10, 0.01, 10), (None, 0.25, 4), (None, 0.02, 50), (None, 0.001, 60), (None, 5, 1), (0.5, 5, 0.5)],
)
async def test_a_declared_rate_is_a_maximum_and_never_raises_the_rate(autojump_clock, declared, cost, rate):
    class Steady(Counting):
        if declared is not None:
            fps = declared

    async with open_server(Steady, step_cost=cost) as server, server.connect() as client:
        frames = await client.take(12)
        assert server.model.output_buffer.fps == pytest.approx(rate)
        assert gaps(frames[2:]) == pytest.approx(max(1 / rate, cost), abs=2e-6)


async def test_the_first_step_is_provisional_the_second_replaces_it_and_the_rest_are_smoothed(autojump_clock):
    costs = [0.5, 0.25, 0.125, 0.125, 0.375]
    expected = [0.5, 0.25]
    for cost in costs[2:]:
        expected.append(expected[-1] + 0.3 * (cost - expected[-1]))
    async with open_server(Counting, step_cost=costs) as server, server.connect() as client:
        await client.take(6)
        assert server.model.rates[:6] == pytest.approx([30, *(1 / seconds for seconds in expected)])


async def test_time_spent_waiting_for_room_is_no_compute_time(autojump_clock):
    async with open_server(Counting, step_cost=0.01, fps=2) as server, server.connect() as client:
        frames = await client.take(20)
        assert gaps(frames) == pytest.approx(0.5)
        assert set(server.model.rates) == {2}


async def test_set_fps_holds_for_a_pipeline_until_its_session_ends(autojump_clock):
    class Declared(Counting):
        fps = 10

    async with open_server(Declared, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.command("rate", fps=20)
            assert gaps((await client.take(20))[3:]) == pytest.approx(0.05, abs=2e-6)
        async with server.connect() as client:
            assert gaps(await client.take(20)) == pytest.approx(0.1, abs=2e-6)


async def test_set_fps_of_a_run_loop_holds_until_the_next_call(autojump_clock):
    class Goes(Script):
        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(picture(1))

    async with open_server(Goes, config={"script": None}) as server:
        async with server.connect() as client:
            await client.command("rate", fps=20)
        async with server.connect() as client:
            assert gaps(await client.take(20)) == pytest.approx(0.05, abs=2e-6)
            await client.command("rate", fps=100)
            assert server.model.output_buffer.fps == 60, "max_fps is above all"


@pytest.mark.parametrize(
    ("at", "fps", "last"),
    [
        (0.25, 2, 0.7),  # the frame on screen since 0.2 stays longer
        (0.275, 20, 0.25),  # it should have gone a little earlier: the schedule holds
        (0.25, 50, 0.25),  # it should have gone more than an interval earlier: the schedule starts anew
    ],
)
async def test_set_fps_retimes_the_shown_frame_and_the_queued_ones(autojump_clock, at, fps, last):
    async def script(model):
        await model.emit(batch(0, 1, 2, 3, 4))
        await trio.sleep_until(at)
        model.output_buffer.set_fps(fps)
        assert model.output_buffer.fps == fps

    async with open_session(Script, config={"script": script}) as client:
        assert times(await client.take(5)) == pytest.approx([0, 0.1, 0.2, last, last + 1 / fps])


async def test_a_run_loop_that_reports_nothing_plays_at_its_declared_rate_or_thirty(autojump_clock):
    class Undeclared(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            while True:
                await self.emit(picture(1))

    async with open_session(Undeclared) as client:
        assert gaps(await client.take(30)) == pytest.approx(1 / 30, abs=2e-6)
    async with open_session(Undeclared, fps=25) as client:
        assert gaps(await client.take(30)) == pytest.approx(1 / 25, abs=2e-6)


# ---- lateness --------------------------------------------------------------------------------------------------------


async def test_a_model_that_is_late_by_several_intervals_restarts_the_schedule_from_now(autojump_clock):
    async def script(model):
        await model.emit(batch(0, 1))
        await trio.sleep_until(1.05)
        await model.emit(batch(2, 3, 4))

    async with open_session(Script, config={"script": script}) as client:
        assert times(await client.take(5)) == pytest.approx([0, 0.1, 1.05, 1.15, 1.25])


@in_all_placements
async def test_one_slow_step_moves_the_schedule_once(autojump_clock, placement):
    class Steady(Counting):
        fps = 4

    async with open_session(Steady, step_cost=lambda step: 0.5 if step == 5 else 0.0625, **placement) as client:
        # Step 5 begins at 1.0, so its frame is there at 1.5 instead of 1.3125, and all others are an interval apart.
        assert gaps(await client.take(12)) == pytest.approx([0.25] * 4 + [0.4375] + [0.25] * 6)


async def test_a_silent_model_causes_no_frame_and_no_black_frame(autojump_clock):
    async def script(model):
        await model.emit(picture(200))
        await trio.sleep(60)
        await model.emit(picture(100))

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        frames = await client.take(2, within=61)
        assert shown(frames) == [200, 100]
        assert times(frames) == [0, 60]
        assert [frame.seq for frame in frames] == [0, 1]
        with trio.move_on_after(60) as waiting:
            await client.take(1, within=61)
        assert waiting.cancelled_caught


@in_all_placements
async def test_no_black_frame_at_the_border_of_two_sessions(autojump_clock, placement):
    class Bright(ReactorPipeline):
        output: Picture
        fps = 10

        def inference(self):
            while True:
                yield picture(200)

    seen = []
    async with open_server(Bright, step_cost=0.01, **placement) as server:
        for _ in range(2):
            async with server.connect() as client, server.connect(role="viewer") as viewer:
                seen += await client.take(5)
                await client.close()
                with pytest.raises(SessionEnded):
                    while True:
                        seen += await viewer.take(1)
    assert len(seen) >= 18
    assert set(shown(seen)) == {200}


# ---- buffers ---------------------------------------------------------------------------------------------------------


async def test_a_fast_pipeline_starts_each_step_just_in_time(autojump_clock):
    class Fast(Counting):
        fps = 4
        buffer_size = 100

    async with open_server(Fast, step_cost=0.125) as server, server.connect() as client:
        frames = await client.take(9)
        # Three steps fill the screen and what is behind it; then a step begins one interval and its own length before
        # the queue runs dry: at 0.375 it lasts until 0.875.
        assert server.model.begins[:8] == pytest.approx([0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5])
        assert times(frames) == [0.125 + n / 4 for n in range(9)]


@pytest.mark.parametrize("placement", ["inline", "thread"])
async def test_a_steady_model_is_resumed_as_late_as_possible(autojump_clock, placement):
    class Fast(Counting):
        fps = 4

    async with open_server(Fast, step_cost=0.125, thread=placement == "thread") as server, server.connect() as client:
        frames = await client.take(40)
    assert times(frames) == [0.125 + n / 4 for n in range(40)]
    leads = np.array(times(frames)) - np.array(server.model.begins[:40])
    assert leads[6:11] == pytest.approx(0.125 + 1 / 4)  # nothing is known yet: one interval
    assert leads[20:] == pytest.approx(0.125 + LEAST)


async def test_a_step_that_took_longer_is_remembered_and_forgotten(autojump_clock):
    class Fast(Counting):
        fps = 4

    cost = [0.125] * 200
    cost[20] = 0.1875
    async with open_server(Fast, step_cost=cost) as server, server.connect() as client:
        frames = await client.take(180)
    leads = np.array(times(frames)) - np.array(server.model.begins[:180])
    late = 0.0625 - LEAST
    assert times(frames)[20] == pytest.approx(0.125 + 20 / 4 + late)  # its margin was too small for it
    assert leads[40:140] == pytest.approx(0.125 + 0.0625 + LEAST, abs=1e-4)  # the smoothed cost forgets it slowly
    assert leads[150:] == pytest.approx(0.125 + LEAST)
    assert gaps(frames)[20:] == pytest.approx(1 / 4)


async def test_a_slow_pipeline_never_waits(autojump_clock):
    async with open_server(Counting, step_cost=0.25, fps=30) as server, server.connect() as client:
        frames = await client.take(8)
        assert server.model.begins[:8] == [n / 4 for n in range(8)]
        assert times(frames) == [(n + 1) / 4 for n in range(8)]


async def test_buffer_size_is_a_ceiling(autojump_clock):
    class Ceiling(Counting):
        fps = 4
        buffer_size = 1

    async with open_server(Ceiling, step_cost=0.125) as server, server.connect() as client:
        frames = await client.take(9)
        # It is time for the third step at 0.25, but one frame waits; the place is free when that is shown.
        assert server.model.begins[:6] == [0, 0.125, 0.375, 0.625, 0.875, 1.125]
        assert times(frames) == [0.125 + n / 4 for n in range(9)]


@pytest.mark.parametrize("kind", ["pipeline", "run loop"])
async def test_a_batch_larger_than_the_buffer_loses_nothing(autojump_clock, kind):
    async def script(model):
        for first in (0, 10, 20):
            await model.emit(batch(*range(first, first + 10)))

    class Chunks(Counting):
        fps = 10
        buffer_size = 2

    model, options = (Chunks, {"batch": 10}) if kind == "pipeline" else (Script, {"script": script})
    async with open_server(model, config=options, step_cost=0.25) as server, server.connect() as client:
        frames = await client.take(30)
        assert shown(frames) == list(range(30))
        assert gaps(frames) == pytest.approx(0.1, abs=2e-6)
        assert server.runtime.metrics.drops() == {}


@pytest.mark.parametrize("black", [True, False])
async def test_flush_makes_one_black_frame_and_clear_makes_none(autojump_clock, black):
    """Frames of a second batch wait for room: both calls drop what is queued and what waits, and count it."""

    async def script(model):
        await model.emit(batch(*range(10, 20)))
        await model.emit(batch(*range(100, 110)))
        model.returned = trio.current_time()
        await trio.sleep(1)
        await model.emit(picture(77))

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        await trio.sleep(0.35)
        await client.command("flush" if black else "clear")
        assert server.model.returned == 0.35
        frames = await client.take(6 if black else 5)
        assert shown(frames) == [10, 11, 12, 13, *([0] if black else []), 77]
        assert times(frames) == pytest.approx([0, 0.1, 0.2, 0.3, *([0.4] if black else []), 1.35])
        # Of ten places the frame on screen had one, nine were queued (14..19, 100..102), seven waited.
        assert server.runtime.metrics.drops() == {("buffer", "flushed"): 16}
        assert frames[-1].seq == len(frames) - 1 + 16


async def test_frames_that_wait_for_room_when_their_session_ends_are_counted(autojump_clock):
    async def script(model):
        await model.emit(batch(*range(10)))
        await model.emit(batch(*range(10)))
        model.returned = trio.current_time()

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        await trio.sleep(0.35)
        await client.vanish()
        assert server.model.returned == 0.35
        assert server.runtime.metrics.drops() == {("buffer", "session_over"): 16}


async def test_frames_that_a_cancelled_emit_had_not_queued_are_counted(autojump_clock):
    async def script(model):
        await model.emit(batch(*range(10)))
        with trio.move_on_after(0.35):
            await model.emit(batch(*range(10)))
        model.returned = trio.current_time()

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        frames = await client.take(13)  # of ten places the frame on screen has one; three frames are shown until 0.35
        assert server.model.returned == 0.35
        assert shown(frames) == [*range(10), *range(3)]
        assert server.runtime.metrics.drops() == {("buffer", "cancelled"): 7}
        await client.vanish()


@pytest.mark.parametrize("away", np.arange(2.06, 2.26, 0.01).round(2))
async def test_each_frame_of_a_batch_is_sent_or_counted_whenever_the_client_leaves(autojump_clock, away):
    # The step from 2.0 to 2.1 is shorter than was to be expected, so until 2.2 its frames wait for room.
    async with open_server(Counting, config={"batch": 8}, step_cost=lambda step: 0.1 if step == 2 else 1) as server:
        async with server.connect() as client:
            await trio.sleep(away)
            await client.vanish()
        await trio.sleep(1.5)  # the session waits for its last step
        made = 8 * len(server.model.begins)
        metrics = server.runtime.metrics
        assert client.statistics().tracks["main_video"].frames + sum(metrics.drops().values()) == made


async def test_flush_before_the_first_picture_is_black_at_720p(autojump_clock):
    async def script(model):
        model.output_buffer.flush()

    async with open_session(Script, config={"script": script}) as client:
        (frame,) = await client.take(1)
        assert frame.data.shape == (720, 1280, 3)
        assert not frame.data.any()


async def test_flush_without_a_session_does_nothing(autojump_clock):
    async def script(model):
        await model.emit(picture(9))

    async with open_server(Script, config={"script": script}) as server:
        server.model.output_buffer.flush()
        server.model.output_buffer.clear()
        async with server.connect() as client:
            assert shown(await client.take(1)) == [9]


# ---- audio -----------------------------------------------------------------------------------------------------------


class Slow(Audio):
    sample_rate = 1000


class Talkie(Output):
    picture: Video
    sound: Slow


class Duo(Output):
    left: Video
    right: Video


class Talks(ReactorModel):
    output: Talkie

    def load(self, config):
        self.config = config

    async def run(self):
        await self.connected.wait()
        for size, samples in self.config["chunks"]:
            sound = np.arange(samples, dtype=np.int16)[None]
            await self.emit(Talkie(picture=batch(*range(size)), sound=sound))
        await trio.sleep_forever()


async def test_audio_is_split_evenly_and_sets_the_duration(autojump_clock):
    async with open_session(Talks, config={"chunks": [(3, 1000), (2, 501)]}) as client:
        sounds = await client.take(5, track="sound")
        pictures = await client.take(5, track="picture")
    assert [frame.data.shape[1] for frame in sounds] == [334, 333, 333, 251, 250]
    assert np.concatenate([frame.data[0] for frame in sounds]).tolist() == [*range(1000), *range(501)]
    assert times(sounds) == times(pictures) == pytest.approx([0, 0.334, 0.667, 1.0, 1.251])
    assert shown(pictures) == [0, 1, 2, 0, 1]


async def test_two_tracks_with_different_numbers_of_frames_are_an_error_that_names_both(autojump_clock):
    class Uneven(ReactorPipeline):
        output: Duo

        def inference(self):
            yield Duo(left=batch(1, 2, 3), right=batch(1, 2))

    async with open_session(Uneven) as client:
        with pytest.raises(ValueError, match="left has 3 and right has 2") as raised:
            await client.take(1)
    assert isinstance(raised.value, OutputError)


async def test_sound_is_not_dropped_with_a_picture(autojump_clock):
    async with open_server(Talks, config={"chunks": [(1, 100)] * 50}) as server, server.connect() as client:
        await trio.sleep(0.05)
        client.stall()
        await trio.sleep(4)
        client.resume()
        sounds = await client.take(50, track="sound")
        assert [frame.seq for frame in sounds] == list(range(50))
        assert times(sounds) == pytest.approx([n / 10 for n in range(50)])
        drops = server.runtime.metrics.drops()
        assert drops.keys() == {("lane", "superseded")}
        assert drops["lane", "superseded"] > 30


# ---- slow and late clients -------------------------------------------------------------------------------------------


class Endless(Counting):
    fps = 10


async def test_a_late_viewer_gets_the_last_picture_at_once(autojump_clock):
    async def script(model):
        await model.emit(picture(42))

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        await client.take(1)
        await trio.sleep_until(5)
        async with server.connect(role="viewer") as viewer, server.connect(role="viewer", video=["jpeg"]) as other:
            with trio.fail_after(0.001):
                (late,) = await viewer.take(1)
                (encoded,) = await other.take(1)
            assert trio.current_time() == 5
            assert (shown([late]), late.pts, late.seq, late.keyframe) == ([42], 0, 0, True)
            assert encoded.keyframe
            assert abs(shown([encoded])[0] - 42) <= 2


async def test_a_slow_client_gets_the_newest_only_and_the_model_is_not_held(autojump_clock):
    async with open_server(Endless, step_cost=0.01) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            both = await client.take(5), await viewer.take(5)
            assert times(both[0]) == times(both[1])
            viewer.stall()
            others = await client.take(50)
            assert gaps(others) == pytest.approx(0.1, abs=2e-6), "the others see no difference"
            await trio.sleep(0.05)
            viewer.resume()
            late = await viewer.take(5)
            # One message was in the socket, one under way into it, and the lane held the newest.
            assert [frame.seq for frame in late] == [5, 6, 54, 55, 56]
            assert server.runtime.metrics.drops() == {("lane", "superseded"): 47}
            assert late[2].data[0, 0, 0] == 54


async def test_with_hold_the_model_waits_for_a_slow_client(autojump_clock):
    async with open_server(Endless, step_cost=0.01, slow_client="hold") as server, server.connect() as client:
        await client.take(5)
        client.stall()
        await trio.sleep(10)
        steps = len(server.model.begins)
        assert steps < 15, "the model waits"
        client.resume()
        frames = await client.take(20)
        assert [frame.seq for frame in frames] == list(range(5, 25)), "and nothing is lost"
        assert min(gaps(frames)) >= 0.1 - 2e-6, "nor is there a burst"
        assert server.runtime.metrics.drops() == {}


async def test_sound_that_waits_for_the_model_is_counted_as_underrun(autojump_clock):
    class Speaking(Output):
        picture: Video
        voice: Audio

    class Model(ReactorPipeline):
        output: Speaking

        def inference(self):
            while True:  # a quarter of a second of sound each time
                yield Speaking(picture=np.zeros((2, 2, 3), np.uint8), voice=np.zeros((1, 12_000), np.int16))

    async with open_server(Model, step_cost=[0.125, 0.125, 0.125, 1.0, 0.125]) as server, server.connect() as client:
        frames = await client.take(5, "picture")
        assert [frame.pts for frame in frames] == [0.125, 0.375, 0.625, 1.625, 1.875]
        assert b"reactor_underruns_total 1.0" in server.runtime.metrics.exposition()


class RatesOfTheLoad(ReactorPipeline):
    """Its rates are properties that read what `load` made."""

    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.before = self.output_buffer.fps
        self.engine = (120.0, 80.0)

    @property
    def fps(self) -> float:
        return self.engine[0]

    @property
    def max_fps(self) -> float:
        return self.engine[1]

    def inference(self):
        while True:
            yield picture(1)


class LimitOfTheLoad(ReactorPipeline):
    output: Picture
    fps = 100

    def load(self, config: dict[str, Any]) -> None:
        self.max_fps = 80

    def inference(self):
        while True:
            yield picture(1)


@pytest.mark.parametrize("how", [{}, {"max_sessions": 2}, {"isolation": "process"}], ids=["one", "two", "process"])
@pytest.mark.parametrize("kind", [RatesOfTheLoad, LimitOfTheLoad])
async def test_rates_that_the_load_has_made_hold_in_and_between_sessions(kind, how, autojump_clock):
    async with open_server(kind, step_cost=0.001, **how) as server:
        if not how.get("max_sessions"):
            assert server.model.output_buffer.fps == 80
        async with server.connect() as client:
            frames = await client.take(9)
            assert frames[-1].pts - frames[0].pts == pytest.approx(8 / 80)


async def test_the_load_sees_the_default_rate_where_the_class_has_a_property(autojump_clock):
    async with open_server(RatesOfTheLoad) as server:
        assert server.model.before == DEFAULT_FPS


def test_a_model_that_is_stepped_by_hand_may_have_a_rate_of_its_load():
    with PipelineExecutor(RatesOfTheLoad) as executor:
        assert (executor.model.before, executor.model.output_buffer.fps) == (DEFAULT_FPS, 120)
