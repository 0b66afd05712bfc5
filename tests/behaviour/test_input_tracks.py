"""Input tracks: reading pictures and sound from the client, and the end of a read."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import BufferClosed, DeclarationError
from reactor_trio.interface import (
    Audio,
    Idle,
    Input,
    InputBuffer,
    InputFrame,
    Output,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    Video,
    VideoModel,
    connected,
    event,
)
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.media import input_codecs
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture, Webcam


def values(frames: list[InputFrame] | None) -> list[int] | None:
    return None if frames is None else [int(frame.data.flat[0]) for frame in frames]


class Seen(ReactorPipeline):
    """Notes what it reads."""

    output: Picture
    input: Webcam

    def load(self, config):
        self.seen = []
        self.log = []


class Latest(Seen):
    async def inference(self):
        while True:
            self.seen.append(values(await self.input.camera.read()))
            self.log.append((self.input.camera.available, self.input.camera.total_received))
            yield Picture(picture(self.seen[-1][0]))


@in_all_placements
async def test_latest_reads_the_newest_and_discards_the_rest(autojump_clock, placement):
    async with open_server(Latest, step_cost=1.0, **placement) as server, server.connect() as client:
        await client.push("camera", picture(1))
        await client.take(1)  # the step with 1 has cost its second
        await client.push("camera", picture(2), picture(3), picture(4))
        assert shown(await client.take(1)) == [4]
        assert server.model.seen == [[1], [4]]
        assert server.model.log == [(0, 1), (0, 4)]
        assert server.runtime.metrics.drops() == {("input", "superseded"): 2}


class Oldest(Seen):
    async def inference(self):
        while True:
            frames = await self.input.camera.read(n=3, mode=ReadMode.FIFO)
            self.seen.append(values(frames))
            self.log.append(self.input.camera.available)
            yield Picture(np.stack([frame.data for frame in frames]))


@in_all_placements
async def test_fifo_reads_the_oldest_in_order(autojump_clock, placement):
    async with open_server(Oldest, step_cost=0.25, **placement) as server, server.connect() as client:
        await client.push("camera", *map(picture, range(1, 8)))
        assert shown(await client.take(6)) == [1, 2, 3, 4, 5, 6]
        assert server.model.seen == [[1, 2, 3], [4, 5, 6]]
        assert server.model.log[-1] == 1


class Impatient(Seen):
    async def inference(self):
        began = trio.current_time()
        try:
            await self.input.camera.read(n=2, timeout=0.1)
        except TimeoutError as error:
            self.log.append((trio.current_time() - began, str(error), self.input.camera.available))
        yield Picture(picture(9))
        await trio.sleep_forever()


@in_all_placements
async def test_a_timeout_is_exact_and_takes_nothing(autojump_clock, placement):
    async with open_server(Impatient, **placement) as server, server.connect() as client:
        await client.push("camera", picture(1))
        await client.take(1)
        ((seconds, words, available),) = server.model.log
        assert seconds == pytest.approx(0.1, abs=1e-9)
        assert (words, available) == ("1 of 2 frames within 0.1 s", 1)


class Trying(Seen):
    def inference(self):
        while True:
            self.seen.append(values(self.input.camera.try_read(n=5)))
            self.log.append(self.input.camera.available)
            if self.seen[-1] is not None:
                yield Picture(picture(self.seen[-1][-1]))
            yield Idle


@in_all_placements
async def test_try_read_takes_nothing_when_too_few_frames_wait(autojump_clock, placement):
    async with open_server(Trying, step_cost=0.25, **placement) as server, server.connect() as client:
        await client.push("camera", *map(picture, (1, 2, 3)))
        await trio.sleep(1)
        assert (server.model.seen[-1], server.model.log[-1]) == (None, 3)
        await client.push("camera", *map(picture, (4, 5)))
        assert shown(await client.take(1)) == [5]
        assert [1, 2, 3, 4, 5] in server.model.seen
        assert server.model.log[-1] == 0


class Blocked(Seen):
    async def inference(self):
        try:
            while True:
                await self.input.camera.read()
                yield Picture(picture(1))
        except BufferClosed:
            self.log.append("closed")
            raise
        finally:
            await trio.sleep(0.5)  # a cleanup may await
            self.log.append("cleaned up")


@in_all_placements
async def test_a_client_that_leaves_ends_a_blocked_read_cleanly(autojump_clock, placement, caplog):
    with caplog.at_level(logging.WARNING):
        async with open_server(Blocked, step_cost=0.25, **placement) as server:
            async with server.connect() as client:
                await client.push("camera", picture(1))
                await client.take(1)
                await trio.sleep(5)
                await client.vanish()
                await trio.sleep(1)
                assert server.model.log == ["closed", "cleaned up"]
            async with server.connect() as client:
                await client.push("camera", picture(1))
                await client.take(1)
            assert [session.reason for session in server.sessions][:1] == ["client_left"]
            assert server.sessions[-1].error is None
    assert not caplog.records


class Swallowing(Seen):
    async def inference(self):
        while True:
            try:
                await self.input.camera.read()
            except BufferClosed:
                self.log.append(trio.current_time())
                if len(self.log) == 3:
                    return
            yield Idle


async def test_a_generator_that_goes_on_after_buffer_closed_is_ended_all_the_same(autojump_clock, caplog):
    async with open_server(Swallowing) as server, server.connect() as client:
        await client.push("camera", picture(1))
        await trio.sleep(1)
        await client.close()
        assert len(server.model.log) == 1
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


class Slow(Latest):
    """Has a frame of its client left unread when that one leaves."""

    async def inference(self):
        await trio.sleep(1)
        self.seen.append(values(self.input.camera.try_read()))
        while True:
            self.seen.append(values(await self.input.camera.read()))
            self.log.append(self.input.camera.total_received)
            yield Picture(picture(self.seen[-1][0]))


@in_all_placements
async def test_the_frames_of_a_past_client_are_not_readable(autojump_clock, placement):
    async with open_server(Slow, **placement) as server:
        async with server.connect() as client:
            await client.push("camera", picture(1), picture(2))
            await trio.sleep(0.5)
            await client.vanish()
            await trio.sleep(1)
        assert server.model.input.camera.closed
        async with server.connect() as client:
            await trio.sleep(2)
            await client.push("camera", picture(3))
            await client.take(1)
        assert server.model.seen == [None, [3]]
        assert server.model.log == [1]
        assert server.runtime.metrics.drops() == {("input", "unread"): 2}


def test_one_name_for_an_input_and_an_output_is_an_error():
    class Both(Input):
        main_video: Video

    class Twice(ReactorPipeline):
        output: Picture
        camera: Both

    says = r"Twice\.camera: the track 'main_video' of .*Both has the name of another"
    with pytest.raises(ValueError, match=says) as caught:
        declaration_of(Twice).schema()
    assert isinstance(caught.value, DeclarationError)


def test_a_blocking_model_declares_its_tracks_by_other_means():
    with pytest.raises(DeclarationError, match=r"Old\.input: a VideoModel declares tracks by VideoIn\(\)"):

        class Old(VideoModel):
            input: Webcam


def test_an_attribute_of_any_name_and_several_of_them():
    class Camera(Input):
        camera: Video

    class Voice(Audio):
        sample_rate = 16_000

    class Talk(Input):
        voice: Voice

    class Model(ReactorPipeline):
        output: Picture
        eyes: Camera
        ears: Talk

    assert declaration_of(Model).schema()["tracks"] == [
        {"name": "main_video", "kind": "video", "direction": "out"},
        {"name": "camera", "kind": "video", "direction": "in"},
        {"name": "voice", "kind": "audio", "direction": "in", "sample_rate": 16_000},
    ]
    unserved = Model()  # a test calls its methods by hand
    assert unserved.eyes.camera.try_read() is None
    assert unserved.ears.voice is unserved.ears.voice


async def test_input_tracks_come_after_the_outputs_in_the_welcome(autojump_clock):
    async with open_session(Latest) as client:
        told = [(track.index, track.name, track.kind, track.direction, track.sample_rate) for track in client.tracks]
        taken = {track.name: track.codecs for track in client.tracks}
    assert told == [
        (0, "main_video", "video", "out", None),
        (1, "camera", "video", "in", None),
        (2, "microphone", "audio", "in", 48_000),
    ]
    assert taken == {"main_video": None, "camera": input_codecs("video"), "microphone": input_codecs("audio")}
    assert taken["camera"] != taken["microphone"]


class Echo(Seen):
    """Times at which it is asked, and when it saw a frame."""

    def inference(self):
        while True:
            frames = self.input.camera.try_read()
            self.log.append(trio.current_time())
            yield Idle if frames is None else Picture(frames[0].data)


async def test_an_idle_generator_is_woken_by_a_frame(autojump_clock):
    async with open_server(Echo) as server, server.connect() as client:
        await trio.sleep(1.005)
        pushed = trio.current_time()
        await client.push("camera", picture(7))
        (frame,) = await client.take(1)
        assert (trio.current_time(), int(frame.data[0, 0, 0])) == (pushed, 7)
        before = [at for at in server.model.log if at < pushed]
        assert all(b - a >= 0.02 - 1e-9 for a, b in itertools.pairwise(before))


async def test_frames_say_which_input_they_were_made_with(autojump_clock):
    async with open_session(Latest, step_cost=0.25) as client:
        await client.push("camera", picture(1), pts=0.0)
        await client.push("camera", picture(2), pts=0.04)
        await client.push("camera", picture(3), pts=1.5)
        frames = await client.take(2)
        assert [frame.meta["input_pts_us"] for frame in frames] == [0, 1_500_000]


async def test_frames_of_a_model_that_reads_no_input_have_no_input_time(autojump_clock):
    class Deaf(ReactorPipeline):
        output: Picture
        input: Webcam

        def inference(self):
            while True:
                yield Picture(picture(0))

    async with open_session(Deaf, step_cost=0.25) as client:
        await client.push("camera", picture(1))
        assert ["input_pts_us" in frame.meta for frame in await client.take(3)] == [False] * 3


class Sound(Output):
    loud: Video


class Listening(ReactorPipeline):
    output: Sound
    input: Webcam

    async def inference(self):
        while True:
            (block,) = await self.input.microphone.read(mode=ReadMode.FIFO)
            assert (block.data.dtype, block.data.ndim, block.data.shape[0]) == (np.int16, 2, 1)
            assert block.data.flags.writeable
            yield Sound(picture(int(np.abs(block.data).max())))


async def test_sound_arrives_as_int16_and_all_of_it(autojump_clock):
    async with open_session(Listening, step_cost=0.25) as client:
        await client.push("microphone", *(np.full((1, 960), -value, np.int16) for value in range(1, 21)))
        assert shown(await client.take(20)) == list(range(1, 21))


class Reader(ReactorModel):
    """A run loop; its buffer is kept in a variable for the server's life."""

    output: Picture
    input: Webcam

    def load(self, config):
        self.log = []

    async def run(self):
        camera = self.input.camera
        while True:
            await self.connected.wait()
            try:
                while True:
                    (frame,) = await camera.read()
                    await self.emit(Picture(frame.data))
            except BufferClosed:
                self.log.append("closed")


@pytest.mark.parametrize("placement", [{}, {"websocket": True}])
async def test_a_run_loop_reads_the_frames_of_each_session(autojump_clock, placement):
    async with open_server(Reader, step_cost=0.25, **placement) as server:
        for value in (1, 2):
            async with server.connect() as client:
                await client.push("camera", picture(value))
                (frame,) = await client.take(1)
                assert (int(frame.data[0, 0, 0]), frame.meta["input_pts_us"]) == (value, 0)
        await server.settle()
        assert server.model.log == ["closed", "closed"]


async def test_a_session_that_ends_before_the_model_has_it_closes_its_inputs(autojump_clock):
    """Else a run loop that reads without a client would wait, with no BufferClosed."""
    async with open_server(Reader, step_cost=0.25) as server, trio.open_nursery() as nursery:

        async def come() -> None:
            async with server.connect():
                await trio.sleep_forever()

        nursery.start_soon(come)
        while not server.sessions:
            await trio.lowlevel.checkpoint()
        server.sessions[0].end("draining")
        await trio.sleep(1)
        assert server.model.log == []  # no session was there for it
        assert server.model.input.camera.closed
        nursery.cancel_scope.cancel()


class Careless(Reader):
    """Never looks at `connected`; to read a frame is to serve its session."""

    async def run(self):
        while True:
            try:
                (frame,) = await self.input.camera.read()
            except BufferClosed:
                self.log.append(trio.current_time())
                continue
            await self.emit(Picture(frame.data))


async def test_reading_a_frame_is_to_serve_its_session(autojump_clock):
    async with open_server(Careless, step_cost=0.25) as server:
        for value in (1, 2):
            async with server.connect() as client:
                await client.push("camera", picture(value))
                assert shown(await client.take(1)) == [value]
            await trio.sleep(1)
        waits = np.diff(server.model.log)
        assert len(waits) > 50
        assert (waits >= 0.02 - 1e-9).sum() >= len(waits) - 1  # a closed buffer does not make a loop spin


class Handled(Seen):
    @connected
    def request(self):
        self.kept = self.input.camera

    @event
    async def snapshot(self) -> int:
        (frame,) = await self.kept.read()
        return int(frame.data[0, 0, 0])

    def inference(self):
        while True:
            yield Idle


async def test_a_handler_may_read_too(autojump_clock, caplog):
    async with open_server(Handled) as server:
        async with server.connect() as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 0.5)
                nursery.start_soon(client.push, "camera", picture(5))
                assert await client.command("snapshot") == 5
        async with server.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.command, "snapshot")
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


class Closing(Seen):
    """An author's own close and reset."""

    async def inference(self):
        camera = self.input.camera
        camera.close()
        with pytest.raises(BufferClosed):
            await camera.read()
        camera.reset()
        self.seen.append(values(await camera.read()))
        camera.close()
        await camera.read()
        yield Idle


async def test_an_author_may_close_and_reset_and_a_crash_of_its_own_making_is_one(autojump_clock):
    async with open_server(Closing) as server:
        async with server.connect() as client:
            await trio.sleep(1)
            await client.push("camera", picture(1))
            with pytest.raises(BufferClosed):
                await client.take(1)
        assert server.model.seen == [[1]]
        assert server.sessions[0].reason == "model_error"


async def test_a_buffer_keeps_the_newest_and_counts_the_rest():
    dropped: dict[str, int] = {}

    def count(reason: str, frames: int) -> None:
        dropped[reason] = dropped.get(reason, 0) + frames

    buffer = InputBuffer(dropped=count)
    for value in range(200):
        buffer.put(InputFrame(picture(value), float(value)))
    assert (buffer.available, buffer.total_received, dropped) == (128, 200, {"evicted": 72})
    assert values(await buffer.read(n=2, mode=ReadMode.FIFO)) == [72, 73]
    assert values(await buffer.read(n=2)) == [198, 199]
    assert dropped == {"evicted": 72, "superseded": 124}
    for n in (0, 129):
        with pytest.raises(ValueError, match="1 to 128"):
            await buffer.read(n)
        with pytest.raises(ValueError, match="1 to 128"):
            buffer.try_read(n)
    with pytest.raises(ValueError, match="timeout"):
        await buffer.read(timeout=-1)


async def test_a_buffer_is_bounded_in_bytes_too():
    buffer = InputBuffer(max_bytes=100)
    for value in range(20):
        buffer.put(InputFrame(picture(value), 0.0))  # 12 bytes each
    assert values(buffer.try_read(n=8)) == list(range(12, 20))
    assert buffer.available == 0
    buffer.put(InputFrame(np.zeros((9, 9, 3), np.uint8), 0.0))  # one is kept, however large
    assert buffer.available == 1


async def test_a_model_that_reads_more_at_a_time_than_is_kept_is_warned_once(autojump_clock, caplog):
    buffer = InputBuffer(max_bytes=100)  # eight pictures
    assert buffer.try_read(n=9) is None
    for value in range(20):
        buffer.put(InputFrame(picture(value), 0.0))
    with pytest.raises(TimeoutError, match="8 of 10 frames"):
        await buffer.read(n=10, timeout=1)
    buffer.put(InputFrame(picture(20), 0.0))
    assert [record.getMessage() for record in caplog.records] == [
        "the model reads 9 frames at a time from an input track that keeps 8 of shape (2, 2, 3): read fewer, or raise "
        "runtime.limits.input_bytes"
    ]
    assert values(buffer.try_read(n=8)) == list(range(13, 21))


async def test_the_manifest_says_how_many_bytes_may_wait(autojump_clock):
    async with open_server(Closing, limits={"input_bytes": 4096}) as server:
        assert server.model.input.camera.max_bytes == 2048
    assert Settings().limits.input_bytes == 512 * 1024 * 1024


async def test_a_cancelled_read_has_taken_nothing(autojump_clock):
    buffer = InputBuffer()
    with trio.move_on_after(1):
        await buffer.read(n=2)
    buffer.put(InputFrame(picture(1), 0.0))
    with trio.CancelScope() as scope:
        scope.cancel()
        await buffer.read()
    assert buffer.available == 1
