"""Media over a real socket, with real threads for the model and the codecs, from a client on either loop."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from tests.support.models import Main, Webcam

from reactor_trio import RuntimeHost
from reactor_trio.client import connect
from reactor_trio.interface import ReactorPipeline, ReadMode

PATIENCE = 120.0


class Invert(ReactorPipeline):
    output: Main
    input: Webcam

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read()
            blocks = self.input.microphone.try_read(mode=ReadMode.FIFO)
            inverted = 255 - frame.data
            if blocks is not None:
                inverted[:] = int(blocks[0].data[0, 0])
            yield Main(inverted)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_pushed_picture_comes_back(backend):
    async def story(url: str) -> None:
        with anyio.fail_after(PATIENCE):
            async with connect(url, video=["raw"]) as client:
                frames = client.frames()
                await client.push_video("camera", np.full((480, 640, 3), 55, np.uint8), 0.25)
                frame = await anext(frames)
                assert frame.data.shape == (480, 640, 3)
                assert np.abs(frame.data.astype(int) - 200).max() <= 2
                assert frame.meta["input_pts_us"] == 250_000
                await client.push_audio("microphone", np.full(960, 7, np.int16))
                await client.push_video("camera", np.full((48, 64, 3), 55, np.uint8), codec="raw")
                assert (await anext(frames)).data.tobytes() == bytes([7]) * 48 * 64 * 3

    with RuntimeHost(Invert) as host:
        anyio.run(story, host.url, backend=backend)
