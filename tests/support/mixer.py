"""A model with a setting, commands, a file, inputs and messages, whose pictures show its level."""

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
)


class Picture(Output):
    main_video: Video


class Devices(Input):
    camera: Video
    microphone: Audio


class Settings(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class Added(ModelMessage):
    total: int


class Got(ModelMessage):
    width: int
    height: int
    samples: int
    first: int
    captured: list[int | None]


class Mixer(ReactorPipeline):
    state: Settings
    input: Devices
    fps = 100  # a test counts 100 pictures

    def load(self, config):
        self.total = 0

    @event
    async def add(self, number: int) -> dict[str, int]:
        self.total += number
        await self.send(Added(total=self.total))
        return {"total": self.total}

    @event
    def measure(self, file: UploadedFile) -> dict[str, str | int]:
        return {"name": file.name, "bytes": len(file.data)}

    async def inference(self):
        picture = None
        while True:
            picture = self.input.camera.try_read() or picture
            if picture and (sound := self.input.microphone.try_read()):
                (height, width, _), (_, samples) = picture[0].data.shape, sound[0].data.shape
                captured = [frame.capture_time_us for frame in (*picture, *sound)]
                await self.send(
                    Got(width=width, height=height, samples=samples, first=int(sound[0].data[0, 0]), captured=captured)
                )
            yield Picture(main_video=np.full((8, 16, 3), self.state.level, np.uint8))
