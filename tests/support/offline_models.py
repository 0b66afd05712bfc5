"""Models of each kind whose frames say what they were made with: red is the state, green counts the frames."""

from __future__ import annotations

import random

import numpy as np
import trio

from reactor_trio.errors import CommandError
from reactor_trio.interface import (
    Audio,
    Idle,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    VideoIn,
    VideoModel,
    command,
    event,
    get_ctx,
)
from tests.support.models import Picture


class Film(Output):
    main_video: Video
    sound: Audio


class Settings(InputState):
    red: int = InputField(default=0, ge=0, le=255)
    seed: int = 0


def picture(red, green, blue=0, size=(32, 32)):
    frame = np.empty((*size, 3), np.uint8)
    frame[:] = red, green % 256, blue
    return frame


def seen(bundles):
    """Of each bundle: step, red, green."""
    return [(b.step, int(b.tracks["main_video"][0, 0, 0]), int(b.tracks["main_video"][0, 0, 1])) for b in bundles]


class Counting(ReactorPipeline):
    """One frame a step, for ever."""

    state: Settings
    output: Picture
    fps = 10
    jumps = 0

    @event(dedupe=True)
    def jump(self, by: int):
        if by < 0:
            raise CommandError("backwards", "only forwards")
        if by == 13:
            raise RuntimeError("unlucky")
        self.jumps += by

    def inference(self):
        number = self.jumps = 0
        while True:
            yield picture(self.state.red, number, self.jumps)
            number += 1


class AsyncCounting(Counting):
    async def inference(self):
        number = 0
        while True:
            await trio.lowlevel.checkpoint()
            yield picture(self.state.red, number)
            number += 1


class Looping(ReactorModel):
    """The same as a run loop."""

    output: Picture
    fps = 10
    red = 0

    @event
    async def set_red(self, red: int):
        await trio.lowlevel.checkpoint()
        self.red = red

    async def run(self):
        while True:
            await self.connected.wait()
            number = 0
            while self.connected.is_set():
                await self.emit(picture(self.red, number), drop=number % 2 == 1)
                number += 1


class Blocking(VideoModel):
    """The same as a blocking model."""

    red = 0

    @command
    def set_red(self, red: int):
        self.red = red

    def start_session(self):
        number = 0
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(self.red, number))
            number += 1


class Batching(Counting):
    """Four frames a step."""

    def inference(self):
        while True:
            yield np.stack([picture(self.state.red, number) for number in range(4)])


class Sounding(ReactorPipeline):
    """Three steps of 0.1 s with picture and sound, then the end."""

    output: Film

    def inference(self):
        for number in range(3):
            tone = (np.sin(np.arange(4800) / 20) * 8000).astype(np.int16).reshape(1, -1)
            yield Film(main_video=picture(80 * number, 0), sound=tone)


class Noisy(Counting):
    """A picture of random numbers, of the state's seed, or of none."""

    def load(self, config):
        self.seeded = config.get("seeded", True)

    def inference(self):
        numbers = random.Random(self.state.seed if self.seeded else None)
        while True:
            yield np.frombuffer(numbers.randbytes(32 * 32 * 3), np.uint8).reshape(32, 32, 3)


class Failing(Counting):
    """Raises in step 5."""

    def inference(self):
        for number in range(5):
            yield picture(0, number)
        raise RuntimeError("out of ideas")


class Waiting(Counting):
    """Idle until red is set."""

    def inference(self):
        while True:
            yield picture(self.state.red, 0) if self.state.red else Idle


class Said(ModelMessage):
    number: int


class Taking(ReactorPipeline):
    """Shows the first byte of a file."""

    output: Picture
    value = 0

    @event
    async def show(self, file: UploadedFile):
        self.value = file.data[0]
        await self.send(Said(number=self.value))

    def inference(self):
        self.value = 0
        while True:
            yield picture(self.value, 0)


class Watching(VideoModel):
    """Has an input."""

    camera = VideoIn()

    def start_session(self):
        get_ctx().emit_block(picture(0, 0))
