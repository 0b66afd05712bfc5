"""Input tracks with codecs between frames: the model reads right frames or none, and the server asks for a keyframe."""

from __future__ import annotations

import numpy as np
import pytest
import trio
import trio.testing
from noted_drops import NotedDrops
from tests.support.models import Main
from tests.support.rendition_stage import context

from reactor_trio.client.push_video import PushEncoder
from reactor_trio.client.session_view import internals
from reactor_trio.connection.media_receiver import WAITING, MediaReceiver
from reactor_trio.interface import Input, ReactorPipeline, ReadMode, Video
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import input_decoder as decoders
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import Packet, decode_packet, encode_packet
from reactor_trio.testing import open_server

CODECS = ["h264", "vp8", "vp9"]
CAMERA = 1


class Webcam(Input):
    camera: Video


class Model(ReactorPipeline):
    output: Main
    input: Webcam

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read(mode=ReadMode.FIFO)
            yield Main(frame.data)


def picture(level, width=64, height=48):
    """Grey of a level, with a red corner."""
    made = np.full((height, width, 3), level, np.uint8)
    made[: height // 2, : width // 2] = [200, 40, 40]
    return made


def level_of(frame):
    assert np.abs(frame[4, 4].astype(int) - [200, 40, 40]).max() < 30
    return round(float(frame[-4:, -8:].mean()))


def packets(codec, levels, keys=(0,), width=64, height=48):
    encoder = PushEncoder(codec, width, height)
    made = []
    for number, level in enumerate(levels):
        data, key = encoder.encode(picture(level, width, height), number / 30, number in keys)
        assert key == (number in keys)
        made.append(message(data, key, codec=codec, pts_us=number * 33_333, width=width, height=height))
    return made


def message(data, key, pts_us=0, **meta):
    return encode_packet(Packet(CAMERA, 0, pts_us, int(key), None, 0, meta, memoryview(data)))


async def send(client, *messages):
    for each in messages:
        await internals(client).connection.transport.send_bytes(each)
    await client.server.settle()


def test_a_packet_of_h264_may_have_1024_units():
    good = PushEncoder("h264", 64, 48).encode(picture(128), 0.0, True)[0]
    unit, has = b"\0\0\1\x09\xf0", good.count(b"\0\0\1")

    def decode(units: int) -> np.ndarray:
        decoder = decoders.InputDecoder(TrackSpec("camera", "video", "in"))
        return decoder.decode({"codec": "h264"}, memoryview(unit * (units - has) + good))

    assert decode(1024).shape == (48, 64, 3)
    with pytest.raises(decoders.Undecodable, match="expected at most 1024 NAL units in a packet, got more"):
        decode(1025)


@pytest.mark.parametrize("codec", CODECS)
async def test_the_client_pushes_and_the_model_reads(autojump_clock, codec):
    """An odd size, another size and another codec come in between."""
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        for level, (width, height) in [(100, (64, 48)), (120, (64, 48)), (140, (65, 49)), (160, (65, 49)), (90, (32, 64))]:
            await client.push("camera", picture(level, width, height), codec=codec)
            (frame,) = await client.take(1)
            assert frame.data.shape == (height, width, 3)
            assert abs(level_of(frame.data) - level) <= 4
        await client.push("camera", picture(100))
        assert (await client.take(1))[0].data.tobytes() == picture(100).tobytes()
        await client.push("camera", picture(130, 32, 64), codec=codec)
        assert abs(level_of((await client.take(1))[0].data) - 130) <= 4
        assert server.runtime.metrics.drops() == {}


@pytest.mark.parametrize("codec", CODECS)
async def test_after_a_fault_nothing_until_a_keyframe_which_is_asked_for(autojump_clock, codec):
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        made = packets(codec, range(60, 180, 10), keys=(0, 8))
        asked = []
        internals(client).receiver.push_tracks.request_keyframe = lambda track: asked.append((track, trio.current_time()))
        start = trio.current_time()
        await send(client, *made[:2], message(b"no picture", False, codec=codec, width=64, height=48), *made[3:5])
        assert asked == [(CAMERA, start)]
        await trio.sleep(0.6)
        await send(client, made[5])
        assert asked == [(CAMERA, start), (CAMERA, start + 0.6)]
        await send(client, made[6], *made[8:])
        frames = await client.take(2 + 4)
        assert [round(level_of(frame.data), -1) for frame in frames] == [60, 70, 140, 150, 160, 170]
        assert server.runtime.metrics.drops() == {("input", "refused"): 1, ("input", "no_keyframe"): 4}
        assert (await client.next_message()).data["message"].startswith(
            f"a binary message was not used: track camera: not a packet of {codec}: "
        )


async def test_a_stream_that_begins_in_the_middle_waits(autojump_clock):
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        made = packets("vp8", [60, 70, 80, 90], keys=(0, 2))
        await send(client, *made[1:])
        assert [round(level_of(frame.data), -1) for frame in await client.take(2)] == [80, 90]
        assert server.runtime.metrics.drops() == {("input", "no_keyframe"): 1}


async def test_the_python_client_answers_with_a_keyframe(autojump_clock):
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        await client.push("camera", picture(60), codec="h264")
        await send(client, message(b"no picture", False, codec="h264"))
        await client.push("camera", picture(80), codec="h264")  # it had been asked by then
        frames = await client.take(2)
        assert [round(level_of(frame.data), -1) for frame in frames] == [60, 80]
        assert server.runtime.metrics.drops() == {("input", "refused"): 1}


async def test_a_keyframe_follows_frames_that_were_encoded_and_not_sent(autojump_clock):
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        await client.push("camera", picture(60), codec="h264")

        async def stuck(data):
            await trio.sleep_forever()

        connection = internals(client).connection
        send_bytes, connection.send_bytes = connection.send_bytes, stuck
        with trio.move_on_after(0.1):
            await client.push_video("camera", picture(70), codec="h264")
        sent = []

        async def seen(data):
            sent.append(decode_packet(data).keyframe)
            return await send_bytes(data)

        connection.send_bytes = seen
        await client.push("camera", picture(80), codec="h264")
        await client.push("camera", picture(90), codec="h264")
        assert sent == [True, False]
        frames = await client.take(3)
        assert [round(level_of(frame.data), -1) for frame in frames] == [60, 80, 90]
        assert server.runtime.metrics.drops() == {}


async def test_a_picture_that_finds_the_queue_full_does_not_break_the_chain():
    gate, noted, asked, got = trio.Event(), NotedDrops(), [], []

    async def worker(function, argument, /, limit):
        await gate.wait()
        return function(argument)

    receiver = MediaReceiver(
        context(declaration_of(Model).tracks, CodecPool(worker, 10), telemetry=noted),
        lambda *message: asked.append(message),
    )
    made = packets("h264", range(60, 200, 10), keys=(0, 12))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receiver.run)
        for each in made[: WAITING + 2]:  # the first is being decoded, the second is dropped
            receiver.take(each, lambda track, frame: got.append(frame))
            await trio.testing.wait_all_tasks_blocked()
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [round(level_of(frame.data), -1) for frame in got] == [60]
        assert noted.drops == [("input", "overflow", 1)] + [("input", "no_keyframe", 1)] * WAITING
        assert asked == [("reactor.keyframe", {"track": CAMERA})]
        for each in made[12:]:
            receiver.take(each, lambda track, frame: got.append(frame))
        await trio.testing.wait_all_tasks_blocked()
        assert [round(level_of(frame.data), -1) for frame in got[1:]] == [180, 190]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("codec", CODECS)
async def test_a_picture_too_large_is_refused_before_it_is_decoded(autojump_clock, codec):
    encoder = PushEncoder(codec, 4100, 16)
    data, _ = encoder.encode(np.zeros((16, 4100, 3), np.uint8), 0, True)
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        await send(client, message(data, True, codec=codec))
        assert "at most 4096x4096, got 4100x16" in (await client.next_message()).data["message"]
        for width, height in ((True, 16), ("4", 16), (0, 16), (4102, 16), (16, 2**62)):
            small, _ = PushEncoder(codec, 64, 48).encode(picture(60), 0, True)
            await send(client, message(small, True, codec=codec, width=width, height=height))
        assert server.runtime.metrics.drops() == {("input", "refused"): 6}


@pytest.mark.parametrize(("matrix", "full_range"), [("bt709", None), ("smpte170m", True)])
async def test_colours_are_what_the_client_says(autojump_clock, matrix, full_range):
    """A picture of BT.601 limited that is declared as something else comes out wrong: the declaration counts."""
    data, _ = PushEncoder("vp8", 64, 48).encode(np.full((48, 64, 3), [200, 40, 40], np.uint8), 0, True)
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        await send(client, message(data, True, codec="vp8"))
        await send(client, message(data, True, codec="vp8", matrix=matrix, **({"full_range": True} if full_range else {})))
        right, wrong = (frame.data[4, 4].astype(int) for frame in await client.take(2))
        assert np.abs(right - [200, 40, 40]).max() <= 4
        assert 8 < np.abs(wrong - right).max() < 60


async def test_without_pyav_the_error_says_what_to_install(autojump_clock, monkeypatch):
    monkeypatch.setattr(decoders, "available", lambda: False)
    made = packets("vp8", [60])
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        (camera,) = [track for track in client.tracks if track.direction == "in"]
        await send(client, *made)
        told = (await client.next_message()).data["message"]
        assert told.endswith('track camera: codec: vp8 needs PyAV on the server, pip install "reactor-trio[video]"')
        await client.push("camera", picture(60))
        assert len(await client.take(1)) == 1
    assert camera.codecs == ("jpeg", "raw")


async def test_an_input_track_says_what_it_takes(autojump_clock):
    async with open_server(Model) as server, server.connect() as client:
        (camera,) = [track for track in client.tracks if track.direction == "in"]
        assert camera.codecs == ("h264", "vp8", "vp9", "jpeg", "raw")
