"""A model whose pictures, sound, messages and answers carry the secret that its session was told; and how to read them.

`reactor run` serves this file's source; the clients of the soak import it.

A picture is 8x8 fields, black or white, one for each bit of a secret of 64 bits: what lossy codecs and smaller sizes leave
of a field is still on its side of grey. Before a secret is told it is `NONE`, a chessboard: a black picture, or one that was
never drawn, is neither.
"""

from __future__ import annotations

import contextlib
import gc
import time
from functools import lru_cache
from typing import Any

import numpy as np
import trio

from reactor_trio import (
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

FPS = 120
SIZE = 64
FIELDS = 8
#: shown and heard before a secret was told
NONE = 0xAA55AA55AA55AA55
#: samples of one picture's sound, one for each bit and the rest again
SAMPLES = 48_000 // FPS
LOUD = 8000
#: how far from black or white the middle of a field may be
BLURRED = 96


@lru_cache(4)
def picture(secret: int, size: int = SIZE) -> np.ndarray:
    """`(size, size, 3)` uint8, read-only."""
    bits = np.array([secret >> bit & 1 for bit in range(FIELDS * FIELDS)], np.uint8).reshape(FIELDS, FIELDS)
    fields = np.kron(bits * 255, np.ones((size // FIELDS, size // FIELDS), np.uint8)).astype(np.uint8)
    drawn = np.repeat(fields[:, :, None], 3, axis=2)
    drawn.flags.writeable = False
    return drawn


@lru_cache(4)
def sound(secret: int) -> np.ndarray:
    """`(1, SAMPLES)` int16, read-only."""
    bits = np.array([secret >> (at % (FIELDS * FIELDS)) & 1 for at in range(SAMPLES)], np.int16)
    heard = ((bits * 2 - 1) * LOUD)[None].astype(np.int16)
    heard.flags.writeable = False
    return heard


def read_picture(shown: np.ndarray) -> int | None:
    """The secret of a picture of any size, None if a field is neither black nor white."""
    rows, columns = (((np.arange(FIELDS) + 0.5) * side / FIELDS).astype(int) for side in shown.shape[:2])
    middles = shown[rows][:, columns].mean(axis=2).ravel()
    if not ((middles < BLURRED) | (middles > 255 - BLURRED)).all():
        return None
    return int(np.packbits(middles > 127, bitorder="little").view("<u8")[0])


def read_sound(heard: np.ndarray) -> int | None:
    """The secret of an uncompressed block, None if it is none."""
    bits = heard[0, : FIELDS * FIELDS]
    secret = int(np.packbits(bits > 0, bitorder="little").view("<u8")[0]) if len(bits) == FIELDS * FIELDS else 0
    return secret if np.array_equal(heard, sound(secret)) else None


class Shown(Output):
    main: Video
    sound: Audio


class Seen(Input):
    camera: Video


class State(InputState):
    secret: str = InputField(default="", max_length=16)
    level: int = InputField(default=0, ge=0, le=255)
    long: bool = False


class Told(ModelMessage):
    """What this session was told."""

    secret: str


class Saw(ModelMessage):
    """What this session's camera showed."""

    secret: str


class LongStep(ModelMessage):
    """The next step takes long."""


class Model(ReactorPipeline):
    fps = FPS
    max_fps = FPS
    state: State
    output: Shown
    input: Seen

    def load(self, config: dict[str, Any]) -> None:
        self.entered = self.left = 0

    @contextlib.contextmanager
    def counted(self):
        self.entered += 1
        try:
            yield
        finally:
            self.left += 1

    async def inference(self):
        self._fails = False
        with self.counted():
            number = 0
            while True:
                if self._fails:
                    raise RuntimeError("asked to fail")
                if self.state.long:
                    await self.send(LongStep())
                    time.sleep(0.02)  # the model's own thread: a forward pass
                for frame in self.input.camera.try_read() or ():
                    await self.send(Saw(secret=f"{read_picture(frame.data) or 0:016x}"))
                if number % 4 == 0:
                    await self.send(Told(secret=self.state.secret))
                number += 1
                secret = int(self.state.secret, 16) if self.state.secret else NONE
                yield Shown(main=picture(secret), sound=sound(secret))

    @event
    def whose(self) -> str:
        return self.state.secret

    @event
    def keep(self, file: UploadedFile) -> str:
        return file.data.decode()

    @event
    def fail(self) -> None:
        self._fails = True

    @event
    def raises(self) -> None:
        raise RuntimeError("asked to raise")

    @event
    def counts(self) -> dict[str, Any]:
        gc.collect()
        tasks = [task for task in gc.get_objects() if isinstance(task, trio.lowlevel.Task)]
        return {
            "entered": self.entered, "left": self.left, "garbage": len(gc.garbage),
            "tasks": sum(getattr(task, "coro", None) is not None and task.coro.cr_frame is not None for task in tasks),
        }  # fmt: skip

    @event
    def at_rest(self) -> bool:
        return gc.get_freeze_count() > 0  # the last that a server does after its start
