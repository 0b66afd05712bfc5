"""The models of `test_two_processes`, one of each kind, and how each process that imports them says what it holds.

The server's process imports the model for its declaration, and the model's process to run it. In each a thread answers on a
socket `held.PID` in the working folder: `ask` sends it a word. So the answer needs no session and no command.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import trio

from reactor_trio.interface import (
    DistributedPipeline,
    Input,
    InputState,
    MediaInput,
    Output,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoIn,
    VideoModel,
    VideoOut,
    command,
    event,
    get_ctx,
)
from tests.leftovers.held import Held, hold_still, why

#: of pictures; large enough for shared memory
SHAPE = (96, 128, 3)
#: the level that makes a model raise
BREAKS = 13


class Picture(Output):
    main_video: Video


class Camera(Input):
    camera: Video


class CameraOfApp(MediaInput):
    camera: Video


class Values(InputState):
    level: int = 0


def picture(level: int) -> np.ndarray:
    if level == BREAKS:
        raise ValueError("the model raises")
    return np.full(SHAPE, level, np.uint8)


class Generated(ReactorPipeline):
    """Reads no input frame."""

    state: Values
    input: Camera
    output: Picture
    fps = 100

    def inference(self):
        while True:
            yield picture(self.state.level)


class AsyncGenerated(ReactorPipeline):
    """Reads its input; sessions have copies of it."""

    state: Values
    input: Camera
    output: Picture
    fps = 100
    max_sessions = 2

    async def inference(self):
        while True:
            self.input.camera.try_read()
            await trio.lowlevel.checkpoint()
            yield picture(self.state.level)


class Ranked(DistributedPipeline):
    state: Values
    input: Camera
    output: Picture
    fps = 100
    ranks = 2

    def inference(self):
        while True:
            self.input.camera.try_read()
            yield picture(self.state.level)


class Stepped(ReactorApp):
    state: Values
    input: CameraOfApp
    output: Picture
    fps = 100

    def generate(self, input: Any) -> Picture:  # noqa: A002 - Reactor's name
        return Picture(main_video=picture(self.state.level))


class Batched(ReactorPipeline):
    state: Values
    input: Camera
    output: Picture
    fps = 100
    max_sessions = 2

    def batch_inference(self, sessions: Any) -> list[np.ndarray]:
        return [picture(session.state.level) for session in sessions]


class Looped(ReactorModel):
    input: Camera
    output: Picture
    fps = 100

    @event
    def set_level(self, level: int) -> None:
        self.level = level

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.level = 0
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(self.level)))


class Blocking(VideoModel):
    main_video = VideoOut(rate=100)
    camera = VideoIn()

    @command
    def set_level(self, level: int) -> None:
        self.level = level

    def start_session(self) -> None:
        self.level = 0
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(self.level))


KINDS: dict[str, type[Any]] = {
    "generator": Generated, "async generator": AsyncGenerated, "app": Stepped, "batch": Batched, "run loop": Looped,
    "blocking": Blocking, "two ranks": Ranked,
}  # fmt: skip


# ---- what a process holds ---------------------------------------------------------------------------------------------


def answer_questions() -> None:
    """Start the thread that answers `ask` in this process."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"held.{os.getpid()}")
    listener.listen()
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()


def _answer(listener: socket.socket) -> None:
    answers: dict[str, Callable[[Any], Any]] = {
        "is at rest": lambda _: gc.get_freeze_count() > 0,
        "hold still": lambda _: hold_still(),
        "held": lambda _: msgspec.to_builtins(Held.now()),
        "why": lambda before: why(msgspec.convert(before, Held)),
    }
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as stream:
            word, about = json.loads(stream.readline())
            stream.write(json.dumps(answers[word](about)) + "\n")


def ask(folder: Path, pid: int, word: str, about: Any = None) -> Any:
    """The answer of a process of that number to a word."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / f"held.{pid}"))
        with connection.makefile("rw") as stream:
            stream.write(json.dumps([word, about]) + "\n")
            stream.flush()
            return json.loads(stream.readline())
