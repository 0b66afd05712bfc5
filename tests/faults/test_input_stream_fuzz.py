"""Thousands of damaged packets of codecs between frames: each gives a picture within bounds or is refused, memory stays
bounded, and the next whole keyframe is decoded as if nothing had been.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import trio
from tests.support.models import Main

from reactor_trio.client.push_video import PushEncoder
from reactor_trio.client.session_view import internals
from reactor_trio.interface import Input, ReactorPipeline, Video
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Undecodable
from reactor_trio.media.input_decoder import MAX_SIDE
from reactor_trio.protocol import Packet, encode_packet
from reactor_trio.testing import open_server

PACKETS = 3000
#: bytes: the decoder's pictures of the largest size that a mutation names, some at once
MEMORY = 400e6


def pictures():
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    return [np.roll(noise, 3 * number, axis=1) for number in range(12)]


def stream(codec):
    encoder = PushEncoder(codec, 64, 48)
    return [encoder.encode(picture, number / 30, number % 6 == 0) for number, picture in enumerate(pictures())]


def damaged(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice([0, 1, 1, 2, 5, 40])):
        at = min(len(changed) - 1, int(dice.expovariate(1 / 20)) if dice.random() < 0.5 else dice.randrange(len(changed)))
        changed[at] = dice.randrange(256)
    if dice.random() < 0.1:
        del changed[dice.randrange(len(changed)) :]
    if dice.random() < 0.05:
        changed += dice.randbytes(dice.randrange(1, 200))
    return bytes(changed)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9"])
def test_thousands_of_damaged_packets(codec):
    dice = random.Random(7)
    spec = TrackSpec("camera", "video", "in")
    decoder, packets, meta = InputDecoder(spec), stream(codec), {"codec": codec}
    decoded = refused = peak = 0
    before = resident()
    for number in range(PACKETS):
        data, key = packets[number % len(packets)]
        flag = key if dice.random() < 0.95 else not key
        if not decoder.wants(meta, flag):
            continue
        try:
            picture = decoder.decode(meta, memoryview(damaged(dice, data)))
        except Undecodable:
            refused += 1
        else:
            decoded += 1
            assert picture.dtype == np.uint8
            assert max(picture.shape) <= MAX_SIDE
        peak = max(peak, resident() - before)
    assert decoded > PACKETS // 20
    assert refused > PACKETS // 20
    assert peak < MEMORY
    decoder.lose()
    fresh = InputDecoder(spec)
    for data, key in packets:
        assert decoder.wants(meta, key)
        expected = fresh.decode(meta, memoryview(data))
        assert decoder.decode(meta, memoryview(data)).tobytes() == expected.tobytes()


class Webcam(Input):
    camera: Video


class Model(ReactorPipeline):
    output: Main
    input: Webcam

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read()
            yield Main(frame.data[:2, :2].copy())


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9"])
async def test_the_session_goes_on(autojump_clock, codec):
    dice = random.Random(11)
    packets = stream(codec)
    async with open_server(Model, step_cost=0.01) as server, server.connect() as client:
        for number in range(300):
            data, key = packets[number % len(packets)]
            data = damaged(dice, data)
            await internals(client).connection.transport.send_bytes(
                encode_packet(Packet(1, number, number, int(key), None, 0, {"codec": codec}, memoryview(data)))
            )
            await trio.sleep(0.02)
        assert client.ended is None
        drops = server.runtime.metrics.drops()
        assert drops["input", "refused"] > 10
        seen = server.model.input.camera.total_received
        await client.push("camera", pictures()[0], codec=codec)
        assert server.model.input.camera.total_received == seen + 1
