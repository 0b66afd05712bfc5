"""Media from a client: a packet that is refused changes nothing, is counted, and gets an error once a second and track."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import simplejpeg
import trio
import trio.testing
from noted_drops import NotedDrops
from tests.support.models import Main, Webcam
from tests.support.rendition_stage import context

from reactor_trio.client.client import Client
from reactor_trio.client.session_view import internals
from reactor_trio.connection.media_receiver import WAITING, MediaReceiver
from reactor_trio.interface import InputFrame, ReactorPipeline
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import KEYFRAME, Packet, decode_client_packet, encode_packet
from reactor_trio.testing import open_server

CAMERA, MICROPHONE = 1, 2
PICTURE = np.random.default_rng(1).integers(0, 255, (24, 32, 3), np.uint8)
JPEG = simplejpeg.encode_jpeg(PICTURE, quality=95, colorspace="RGB", colorsubsampling="444")
HUGE = simplejpeg.encode_jpeg(np.zeros((8, 4097, 3), np.uint8), colorspace="RGB")


class Model(ReactorPipeline):
    output: Main
    input: Webcam

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read()
            yield Main(frame.data)


def packet(
    payload: bytes = b"", /, *, track: int = CAMERA, pts_us: int = 0, **meta: Any
) -> bytes:
    return encode_packet(Packet(track, 0, pts_us, KEYFRAME, None, 0, meta, memoryview(payload)))


RAW = packet(PICTURE.tobytes(), codec="raw", width=32, height=24)

BAD = {
    "no packet": (b"\x00\x01", "not a packet of the protocol"),
    "a codec that is a list": (packet(JPEG, codec=[["jpeg"]]), "not a packet of the protocol: Expected "),
    "an output track": (packet(JPEG, track=0, codec="jpeg"), "track 0 is no input track; this model has 1 (camera), 2"),
    "an undeclared track": (packet(JPEG, track=7, codec="jpeg"), "track 7 is no input track"),
    "a time before the first": (packet(JPEG, pts_us=-1, codec="jpeg"), "pts_us"),
    "no codec": (packet(JPEG), "track camera: codec: expected one of h264, vp8, vp9, jpeg, raw, got None"),
    "another codec": (packet(JPEG, codec="h266"), "codec: expected one of h264, vp8, vp9, jpeg, raw, got 'h266'"),
    "no H.264": (packet(JPEG, codec="h264"), "track camera: not a packet of h264: Invalid data"),
    "no VP8": (packet(b"\x9d\x01\x2a", codec="vp8"), "track camera: not a packet of vp8: Invalid data"),
    "sound on a video track": (packet(bytes(960), codec="pcm_s16le"), "codec"),
    "a picture on an audio track": (packet(JPEG, track=MICROPHONE, codec="jpeg"), "codec: expected pcm_s16le, got 'jpeg'"),
    "a truncated JPEG": (packet(JPEG[: len(JPEG) // 2], codec="jpeg"), "not a JPEG picture"),
    "a truncated JPEG header": (packet(JPEG[:20], codec="jpeg"), "not a JPEG picture"),
    "an empty JPEG": (packet(codec="jpeg"), "not a JPEG picture"),
    "a JPEG too large": (packet(HUGE, codec="jpeg"), "at most 4096x4096, got 4097x8"),
    "a raw picture without size": (packet(PICTURE.tobytes(), codec="raw"), "needs width and height"),
    "a raw size that is no number": (packet(PICTURE.tobytes(), codec="raw", width=True, height=24), "needs width"),
    "a raw size of nothing": (packet(codec="raw", width=0, height=24), "at most 4096x4096, got 0x24"),
    "a raw size too large": (packet(codec="raw", width=2**62, height=24), "at most 4096x4096"),
    "too few raw bytes": (packet(PICTURE.tobytes()[:-1], codec="raw", width=32, height=24), "has 2304 bytes, got 2303"),
    "half a sample": (packet(bytes(961), track=MICROPHONE, codec="pcm_s16le"), "16-bit samples, got 961 bytes"),
    "no samples": (packet(track=MICROPHONE, codec="pcm_s16le"), "16-bit samples, got 0 bytes"),
    "another rate": (
        packet(bytes(960), track=MICROPHONE, codec="pcm_s16le", sample_rate=16_000),
        "sample_rate: expected 48000, got 16000",
    ),
}


async def send(client: Client, *messages: bytes) -> None:
    for message in messages:
        await internals(client).connection.transport.send_bytes(message)


@pytest.mark.parametrize(("message", "words"), BAD.values(), ids=BAD)
async def test_a_packet_that_cannot_be_used_gets_an_error_and_the_session_goes_on(autojump_clock, message, words):
    async with open_server(Model, step_cost=0.25) as server, server.connect() as client:
        await send(client, message, RAW)
        told = await client.next_message()
        assert told.type == "reactor.error"
        assert told.data["code"] == "protocol_error"
        assert words in told.data["message"]
        assert (await client.take(1))[0].data.tobytes() == PICTURE.tobytes()
        assert server.runtime.metrics.drops() == {("input", "refused"): 1}


async def test_the_error_comes_once_a_second_and_track(autojump_clock):
    async with open_server(Model) as server, server.connect() as client:
        heard: list[str] = []

        async def listen() -> None:
            async for message in client.messages():
                heard.append(message.data["message"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            for _ in range(25):
                await send(client, BAD["a truncated JPEG"][0], BAD["half a sample"][0], b"\x00", b"\x01")
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert len(heard) == 9  # at 0.0, 1.0 and 2.0 s for the camera, the microphone and what is no packet
        assert server.runtime.metrics.drops() == {("input", "refused"): 100}


async def test_jpeg_and_raw_arrive_as_the_model_reads_them(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server, server.connect() as client:
        await send(client, packet(JPEG, codec="jpeg"))
        (frame,) = await client.take(1)
        assert frame.data.tobytes() == simplejpeg.decode_jpeg(JPEG, colorspace="RGB").tobytes()
        assert np.abs(frame.data.astype(int) - PICTURE).mean() < 5
        await client.push_video("camera", np.full((24, 32, 3), 100, np.uint8))
        (frame,) = await client.take(1)
        assert np.abs(frame.data.astype(int) - 100).max() <= 2
        await client.push("camera", PICTURE)
        (frame,) = await client.take(1)
        assert frame.data.tobytes() == PICTURE.tobytes()


async def test_a_viewer_and_a_waiting_client_may_not_send_media(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server:
        async with server.connect() as first, server.connect(role="viewer") as viewer:
            await send(viewer, RAW, RAW)
            told = await viewer.next_message()
            assert told.data["code"] == "not_allowed"
            async with trio.open_nursery() as nursery:
                transport = await server._open_memory("ws://127.0.0.1/ws", first._stall)
                assert "reactor.queued" in await transport.receive()
                await transport.send_bytes(RAW)
                assert '"not_admitted"' in await transport.receive()
                await transport.aclose()
                nursery.cancel_scope.cancel()
            await first.push("camera", PICTURE)
            assert len(await first.take(1)) == 1
        assert server.runtime.metrics.drops() == {("input", "not_taken"): 3}


async def test_pictures_wait_for_the_decoder_in_order_and_the_oldest_are_dropped():
    """Sound overtakes them."""
    gate, noted, said, got = trio.Event(), NotedDrops(), [], []

    async def worker(function, argument, /, limit):
        await gate.wait()
        return function(argument)

    receiver = MediaReceiver(
        context(declaration_of(Model).tracks, CodecPool(worker, 10), telemetry=noted),
        lambda *message: said.append(message),
    )

    def deliver(track: str, frame: InputFrame) -> None:
        got.append((track, frame.pts))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receiver.run)
        for number in range(WAITING + 4):
            receiver.take(packet(JPEG, codec="jpeg", pts_us=number * 1_000_000), deliver)
            await trio.testing.wait_all_tasks_blocked()
        receiver.take(packet(bytes(960), track=MICROPHONE, codec="pcm_s16le"), deliver)
        assert got == [("microphone", 0.0)]
        assert noted.drops == [("input", "overflow", 1)] * 3
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        # the first was under way
        assert got[1:] == [("camera", float(n)) for n in (0, *range(4, WAITING + 4))]
        gate = trio.Event()
        receiver.take(packet(JPEG, codec="jpeg"), deliver)
        receiver.take(packet(JPEG, codec="jpeg"), deliver)
        nursery.cancel_scope.cancel()
    assert noted.drops[3:] == [("input", "client_left", 2)]
    receiver.take(packet(JPEG, codec="jpeg"), deliver)  # the last of a connection that is over
    assert noted.drops[4:] == [("input", "client_left", 1)]
    assert said == []


def test_unread_fields_of_a_packet_are_not_decoded():
    def alive(**meta: Any) -> int:
        data = packet(JPEG, codec="jpeg", **meta)
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            decoded = decode_client_packet(data)
            return len(gc.get_objects()) - before
        finally:
            gc.enable()
            assert decoded.meta == {"codec": "jpeg"}

    assert alive(others=[[[]] * 1000] * 50, metadata={"a": [[]] * 1000}) == alive()


async def test_a_model_without_inputs_refuses_media(autojump_clock):
    class Deaf(ReactorPipeline):
        output: Main

        def inference(self):
            while True:
                yield Main(PICTURE)

    async with open_server(Deaf, step_cost=0.25) as server, server.connect() as client:
        await send(client, RAW)
        assert (await client.next_message()).data["message"] == "a binary message: this model has no input tracks"
