"""A model of each kind, for the cells of `matrix`: each makes pictures of the level that its client sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import trio

from reactor_trio.interface import (
    InputState,
    MediaInput,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    VideoIn,
    VideoModel,
    VideoOut,
    command,
    connected,
    event,
    get_ctx,
)
from tests.leftovers.held import BIG
from tests.support.models import Camera, Picture

#: of pictures, so that one that is left is seen in resident memory
SHAPE = (192, 256, 3)
FRAME_BYTES = 192 * 256 * 3
#: the level that makes a model raise
BREAKS = 13
#: the level at which its code returns
RETURNS = 14


class CameraOfApp(MediaInput):
    camera: Video


class Values(InputState):
    level: int = 0
    file: UploadedFile | None = None


class Hooked:
    """What the kinds have in common."""

    #: whether `@connected` raises, for each session from now on
    hook_raises = False
    state: Any

    @connected
    def joins(self) -> None:
        if self.hook_raises:
            raise ValueError("the hook raises")
        if getattr(self, "state", None) is not None:
            BIG.watch("state", self.state)


def picture(level: int) -> np.ndarray:
    if level == BREAKS:
        raise ValueError("the model raises")
    return np.full(SHAPE, level, np.uint8)


class Generated(Hooked, ReactorPipeline):
    """Reads no input frame."""

    state: Values
    input: Camera
    output: Picture
    fps = 20

    def inference(self):
        while self.state.level != RETURNS:
            yield picture(self.state.level)
        yield picture(0)
        self.state.level = 0


class AsyncGenerated(Hooked, ReactorPipeline):
    """Reads its input; sessions have copies of it."""

    state: Values
    input: Camera
    output: Picture
    fps = 20
    max_sessions = 2

    async def inference(self):
        while self.state.level != RETURNS:
            self.input.camera.try_read()
            await trio.lowlevel.checkpoint()
            yield picture(self.state.level)
        yield picture(0)
        self.state.level = 0


class Stepped(Hooked, ReactorApp):
    state: Values
    input: CameraOfApp
    output: Picture
    fps = 20

    def generate(self, input: Any) -> Picture:  # noqa: A002 - Reactor's name
        return Picture(main_video=picture(self.state.level))


class Batched(Hooked, ReactorPipeline):
    state: Values
    input: Camera
    output: Picture
    fps = 20
    max_sessions = 2

    def batch_inference(self, sessions: Any) -> list[np.ndarray]:
        return [picture(session.state.level) for session in sessions]


class Looped(Hooked, ReactorModel):
    input: Camera
    output: Picture
    fps = 20

    @event
    def set_level(self, level: int) -> None:
        self.level = level

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.level = 0
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(self.level)), compute_time=0.05)


class Blocking(Hooked, VideoModel):
    main_video = VideoOut(rate=20)
    camera = VideoIn()

    @command
    def set_level(self, level: int) -> None:
        self.level = level

    def start_session(self) -> None:
        self.level = 0
        while not get_ctx().should_stop() and self.level != RETURNS:
            get_ctx().emit_block(picture(self.level))


KINDS: dict[str, type[Any]] = {
    "generator": Generated, "async generator": AsyncGenerated, "app": Stepped, "batch": Batched, "run loop": Looped,
    "blocking": Blocking,
}  # fmt: skip
