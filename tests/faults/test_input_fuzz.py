"""Thousands of broken input frames and audio chunks: the session goes on, what is dropped is counted, memory stays bounded.

A few hundred for every run of the tests; with the marker `soak` ten thousand.
"""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest
import simplejpeg
import trio
from tests.support.models import Main, Webcam

from reactor_trio.client.client import Client
from reactor_trio.client.session_view import internals
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import open_server

PICTURE = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
JPEG = simplejpeg.encode_jpeg(PICTURE, colorspace="RGB")
SOUND = np.arange(960, dtype=np.int16).tobytes()

CAMERA, MICROPHONE = 1, 2


class Model(ReactorPipeline):
    output: Main
    input: Webcam

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read()
            assert frame.data.ndim == 3
            assert (frame.data.dtype, frame.data.shape[2]) == (np.uint8, 3)
            for block in self.input.microphone.try_read() or ():
                assert (block.data.dtype, block.data.shape[0]) == (np.int16, 1)
            yield Main(np.zeros((2, 2, 3), np.uint8))


def broken(dice: random.Random) -> bytes:
    """A packet with up to three faults; now and then with none."""
    if sound := dice.random() < 0.3:
        fields: list[Any] = [MICROPHONE, 0, 0, 1, None, 0, {"codec": "pcm_s16le"}, SOUND]
    elif dice.random() < 0.5:
        fields = [CAMERA, 0, 0, 1, None, 0, {"codec": "jpeg"}, JPEG]
    else:
        fields = [CAMERA, 0, 0, 1, None, 0, {"codec": "raw", "width": 64, "height": 48}, PICTURE.tobytes()]
    for _ in range(dice.randrange(4)):
        payload, meta = fields[7], dict(fields[6])
        match dice.randrange(8):
            case 0:
                fields[0] = dice.choice([0, CAMERA, MICROPHONE, 3, -1, 2**40])
            case 1:
                fields[2] = dice.choice([-1, 0, 2**53, 2**63, 10**6])
            case 2:
                fields[7] = payload[: dice.randrange(len(payload) + 1)]
            case 3:
                fields[7] = payload + dice.randbytes(dice.randrange(1, 100))
            case 4 if payload:
                at = dice.randrange(len(payload))
                fields[7] = payload[:at] + dice.randbytes(1) + payload[at + 1 :]
            case 5:
                meta["codec"] = dice.choice(["jpeg", "raw", "pcm_s16le", "h264", None, 7, "x" * 1000])
                fields[6] = meta
            case 6:
                key = dice.choice(["width", "height", "sample_rate"])
                meta[key] = dice.choice([0, -1, 1, 64, 48, 4096, 4097, 2**62, 1.5, "64", None, True, [], 16_000])
                fields[6] = meta
            case 7 if sound:
                fields[7] = SOUND * dice.randrange(20)
    data = msgspec.msgpack.encode(fields)
    if dice.random() < 0.1:
        at = dice.randrange(len(data))
        data = data[:at] + dice.randbytes(1) + data[at + 1 :]
    if dice.random() < 0.05:
        data = data[: dice.randrange(len(data))]
    return data


async def push_broken(client: Client, packets: int, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(packets):
        await internals(client).connection.transport.send_bytes(broken(dice))
        if number % 10 == 0:
            await trio.sleep(0.1)


async def fuzz(packets: int, seed: int, **placement: Any) -> None:
    async with open_server(Model, step_cost=0.01, **placement) as server, server.connect() as client:
        await push_broken(client, 100, seed)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await push_broken(client, packets, seed + 1)
            await trio.sleep(1)
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert client.ended is None
        assert server.runtime.metrics.drops()["input", "refused"] > packets // 4
        for _ in range(3):  # and it is served as before
            await client.push("camera", PICTURE)
            await trio.sleep(1)
        seen = server.model.input.camera.total_received
        assert seen >= 3
        # a buffer of 128 pictures of 9 kB and as many blocks of sound, the client's frames not yet taken
        assert after - before < 20e6
        assert peak - before < 150e6  # a JPEG whose size a mutation has enlarged is decoded, up to 4096x4096


@pytest.mark.parametrize("placement", [{}, {"websocket": True}], ids=["inline", "websocket"])
async def test_hundreds_of_broken_packets(autojump_clock, placement):
    await fuzz(400, 1, **placement)


@pytest.mark.soak
async def test_ten_thousand_broken_packets(autojump_clock):
    await fuzz(10_000, 2)
