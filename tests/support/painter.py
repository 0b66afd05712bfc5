"""The model of the tests of the web client in a page, which copy this file into a project: it paints its step's number."""

from __future__ import annotations

import numpy as np

from reactor_trio.interface import (
    Audio,
    Input,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
    session_started,
)


class Pictures(Output):
    main_video: Video
    depth: Video
    speech: Audio


class State(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=1.0)


class Camera(Input):
    camera: Video
    microphone: Audio


class Progress(ModelMessage):
    step: int


class Painter(ReactorPipeline):
    """Paints its step's number on the left, grey levels of 16 for each of four digits in rows, and its brightness beside it.

    `level` and `loudness` are those of the newest camera picture and microphone block of the session.
    """

    state: State
    input: Camera
    output: Pictures
    fps = 30

    @session_started
    def begin(self) -> None:
        self.level = self.loudness = -1.0
        self.calls = 0

    async def inference(self):
        number = 0
        while True:
            for frame in self.input.camera.try_read() or ():
                self.level = float(frame.data.mean())
            for block in self.input.microphone.try_read() or ():
                self.loudness = float(abs(block.data).max())
            picture = np.zeros((48, 64, 3), np.uint8)
            for row in range(4):
                picture[row * 12 : row * 12 + 12, :32] = (number >> 4 * row & 15) * 16 + 8
            picture[:, 32:] = round(self.state.brightness * 255)
            yield Pictures(main_video=picture, depth=picture, speech=np.full((1, 1600), 8000, np.int16))
            number += 1

    @event
    def look(self) -> float:
        return self.level

    @event
    def listen(self) -> float:
        return self.loudness

    @event
    def count(self) -> int:
        self.calls += 1
        return self.calls

    @event
    async def key_w(self) -> None:
        await self.send(Progress(step=1))

    @event
    async def pointer_down(self, x: float, y: float) -> None:
        await self.send(Progress(step=round(x * 10)))

    @event
    async def size(self, file: UploadedFile) -> int:
        await self.send(Progress(step=7))
        return len(file.data)
