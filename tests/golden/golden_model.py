"""A model that declares one of everything, so that what others see of it has every shape."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reactor_trio.interface import (
    Audio,
    ClientInfo,
    Input,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    connected,
    disconnected,
    event,
    file_uploaded,
)


class Mode(enum.Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Picture(Output):
    main_video: Video
    sound: Audio


class Eyes(Input):
    camera: Video
    microphone: Audio


class Everything(InputState):
    level: float = InputField(default=1.0, ge=0.0, le=2.0, description="How bright")
    prompt: str = InputField(default="", max_length=100)
    mode: Mode = Mode.DAY
    choice: Literal["a", "b"] = "a"
    maybe: Point | None = None
    pair: tuple[int, str] = InputField(default=(1, "a"))
    table: dict[str, list[Point]] = {}
    picture: UploadedFile | None = None
    anything: Any = None
    _private: int = 0


class Moved(ModelMessage):
    """Something moved."""

    to: Point
    note: str = MessageField(default="", description="free text")


class Golden(ReactorPipeline):
    """Shows what it is told."""

    state: Everything
    input: Eyes
    fps = 10

    @connected
    def request(self, client: ClientInfo) -> None:
        self.client = client

    @disconnected
    def goodbye(self) -> None:
        del self.client

    @file_uploaded
    def take(self, file: UploadedFile) -> None:
        pass

    @event(name="move", description="Move there", dedupe=True)
    async def move_to(self, to: Point, *, fast: bool = False) -> dict[str, float]:
        await self.send(Moved(to=to))
        return {"x": to.x}

    @event
    def fail(self) -> None:
        raise ValueError("asked to")

    def inference(self):
        while True:
            level = np.uint8(100 * self.state.level)
            yield Picture(main_video=np.full((16, 16, 3), level, np.uint8), sound=np.zeros((1, 4800), np.int16))
