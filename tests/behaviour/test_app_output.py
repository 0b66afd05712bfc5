"""What a `ReactorApp` shows: its rate, `flush`, metadata of frames, sound, input, and an app without tracks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.errors import OutputError, ReactorError
from reactor_trio.interface import (
    Audio,
    Output,
    ReactorApp,
    ReactorPipeline,
    StepOutcome,
    TrackPayload,
    Video,
    event,
)
from reactor_trio.testing import open_server, open_session
from tests.behaviour.test_app_steps import SIZE, App, Camera, Picture, picture, value_of


def batch(*values: int) -> Picture:
    return Picture(picture=np.stack([np.full(SIZE, value, np.uint8) for value in values]))


async def shown_at(client: Any, number: int) -> list[float]:
    times = []
    for _ in range(number):
        await client.take()
        times.append(trio.current_time())
    return times


def gaps(times: list[float]) -> list[float]:
    return [b - a for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize(("fps", "expected"), [(None, 30), (15, 15)])
async def test_a_batch_is_shown_evenly(autojump_clock: object, fps: int | None, expected: int) -> None:
    class Batched(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            return batch(*range(12))

    if fps is not None:
        Batched.fps = fps
    async with open_session(Batched, step_cost=12 / expected) as client:
        await client.take(24)
        times = await shown_at(client, 24)
        assert client.server.runtime.metrics.drops() == {}
    assert gaps(times) == pytest.approx([1 / expected] * 23)


@pytest.mark.parametrize("on_class", [False, True])
async def test_fps_may_be_assigned_in_load(autojump_clock: object, on_class: bool) -> None:
    class Rated(App):
        def load(self, config_path: Any) -> None:
            if on_class:
                type(self).fps = 24
            else:
                self.fps = 24

    async with open_session(Rated) as client:
        await client.take(5)
        assert gaps(await shown_at(client, 6)) == pytest.approx([1 / 24] * 5)


async def test_output_fps_assigned_in_load_holds_for_every_session(autojump_clock: object) -> None:
    class Rated(App):
        def load(self, config_path: Any) -> None:
            self.output.fps = 12

        @event(name="faster")
        def faster(self) -> None:
            self.output.fps = 20

    async with open_server(Rated) as server:
        for _ in range(2):
            async with server.connect() as client:
                times = await shown_at(client, 4)
                assert gaps(times) == pytest.approx([1 / 12] * 3)
                await client.command("faster")
                await client.take(4)
                assert gaps(await shown_at(client, 4)) == pytest.approx([1 / 20] * 3)


class Flushing(ReactorApp):
    output: Picture
    buffer_size = 8

    def load(self, config_path: Any) -> None:
        self.step = 0

    def generate(self, input: Any) -> Any:  # noqa: A002
        self.step += 1
        return batch(*[self.step * 10 + i for i in range(8)])

    @event(name="flush")
    def flush(self, hold: bool) -> None:
        self.output.flush(hold=hold)
        self.step = 9  # the next step's frames are 100 to 107


@pytest.mark.parametrize("hold", [False, True])
async def test_flush_drops_what_is_queued(autojump_clock: object, hold: bool) -> None:
    async with open_session(Flushing, step_cost=0.05) as client:
        frames = [value_of(frame) for frame in await client.take(2)]
        await client.command("flush", hold=hold)
        frames += [value_of(frame) for frame in await client.take(12)]
    flushed = frames.index(100)
    assert frames[:flushed] == sorted(frames[:flushed]) if hold else frames[flushed - 1] == 0
    assert (0 in frames) is not hold
    assert flushed <= 4
    assert frames[flushed : flushed + 8] == list(range(100, 108))


async def test_flush_in_process_output_keeps_the_frames_of_its_step(autojump_clock: object) -> None:
    class Cutting(Flushing):
        async def process_output(self, outcome: StepOutcome) -> Any:
            if self.step == 3:
                self.output.flush(hold=True)
            return outcome.to_output()

    async with open_session(Cutting, step_cost=0.05) as client:
        frames = [value_of(frame) for frame in await client.take(24)]
    cut = frames.index(30)
    assert cut < 16
    assert frames[cut : cut + 8] == list(range(30, 38))


async def test_each_frame_carries_its_own_metadata(autojump_clock: object) -> None:
    class Described(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            frames = batch(1, 2, 3, 4).picture  # empty bytes are Reactor's way to write "none"
            return Picture(picture=TrackPayload(frames, metadata=[{"n": 1}, b"two", None, b""]))

    async with open_session(Described) as client:
        frames = await client.take(4)
    assert [frame.meta.get("metadata") for frame in frames] == [{"n": 1}, b"two", None, None]


async def test_one_mapping_is_for_every_frame(autojump_clock: object) -> None:
    class Described(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            return Picture(picture=TrackPayload(batch(1, 2).picture, metadata={"scale": np.float32(0.5)}))

    async with open_session(Described) as client:
        assert [frame.meta["metadata"] for frame in await client.take(4)] == [{"scale": 0.5}] * 4


class Sounding(Output):
    picture: Video
    sound: Audio


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (lambda: TrackPayload(batch(1, 2).picture, metadata=[{}]), r"picture: metadata of 1 frames for 2 frames"),
        (lambda: TrackPayload(batch(1).picture, metadata={"x": object()}), r"picture: metadata: cannot be sent as JSON"),
        (lambda: TrackPayload(batch(1).picture, metadata={"n": 2**70}), r"picture: metadata: .*ints"),
        (lambda: TrackPayload(batch(1).picture, metadata="text"), r"metadata of a frame is a mapping or bytes, not str"),
    ],
)
async def test_metadata_that_does_not_fit_is_refused(autojump_clock: object, made: Any, wrong: str) -> None:
    class Wrong(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            return Picture(picture=made())

    async with open_session(Wrong) as client:
        with pytest.raises(OutputError, match=rf"(?m){wrong}.*test_app_output\.py:\d+\)$"):
            await client.take()


async def test_sound_has_no_metadata(autojump_clock: object) -> None:
    class Wrong(ReactorApp):
        output: Sounding

        def generate(self, input: Any) -> Any:  # noqa: A002
            sound = TrackPayload(np.zeros((1, 1600), np.int16), metadata={})
            return Sounding(picture=picture().picture, sound=sound)

    async with open_session(Wrong) as client:
        with pytest.raises(OutputError, match="sound: only a video track has metadata"):
            await client.take()


async def test_empty_sound_adds_nothing(autojump_clock: object) -> None:
    class Silent(ReactorApp):
        output: Sounding

        def generate(self, input: Any) -> Any:  # noqa: A002
            return Sounding(picture=picture(4).picture, sound=np.zeros((1, 0), np.int16))

    async with open_session(Silent) as client:
        assert [value_of(frame) for frame in await client.take(3, "picture")] == [4, 4, 4]


async def test_input_frames_have_metadata_and_end_with_their_session(autojump_clock: object) -> None:
    class Seeing(App):
        media: Camera

        def load(self, config_path: Any) -> None:
            self.seen: list[Any] = []

        async def process_input(self) -> Any:
            self.seen += self.media.camera.try_read(1) or []
            return self.state

    async with open_server(Seeing) as server:
        async with server.connect() as client:
            await client.take()
            await client.push("camera", np.full(SIZE, 3, np.uint8), pts=0.5, metadata=b"pose", capture_time_us=7_000_001)
            await client.take(3)
            await client.push("camera", np.full(SIZE, 4, np.uint8), pts=1, metadata=b"")
            await client.take(3)
            assert [(int(f.data[0, 0, 0]), f.pts, f.metadata, f.capture_time_us) for f in server.model.seen] == [
                (3, 0.5, b"pose", 7_000_001), (4, 1.0, None, None),
            ]  # fmt: skip
            await client.push("camera", np.full(SIZE, 4, np.uint8))
        server.model.seen.clear()
        async with server.connect() as client:
            await client.take(5)
            assert server.model.seen == []


async def test_every_kind_of_model_has_the_output_stream(autojump_clock: object) -> None:
    class Pipeline(ReactorPipeline):
        output: Picture

        @event(name="flush")
        def flush(self) -> None:
            self.output.flush(hold=True)
            self.output.fps = 10

        def inference(self) -> Any:
            while True:
                yield picture(3)

    async with open_session(Pipeline) as client:
        await client.take(3)
        await client.command("flush")
        await client.take(4)
        assert gaps(await shown_at(client, 4)) == pytest.approx([1 / 10] * 3)


async def test_generate_cannot_emit(autojump_clock: object) -> None:
    class Emitting(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            self.emit(picture())

    async with open_session(Emitting) as client:
        with pytest.raises(ReactorError, match=r"(?m)must be awaited, which `def generate` cannot: .* in process_output$"):
            await client.take()
