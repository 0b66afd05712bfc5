"""The models of `test_two_processes`, and how each process that imports them says what it holds.

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

from reactor_trio.interface import DistributedPipeline, Saves, session_started
from tests.leftovers import kinds
from tests.leftovers.held import Held, hold_still, why
from tests.leftovers.kinds import picture

#: bytes of a world
LARGE = 9 * 1024 * 1024


class Ranked(DistributedPipeline):
    state: kinds.Values
    input: kinds.Camera
    output: kinds.Picture
    fps = 20
    ranks = 2

    def inference(self):
        while True:
            self.input.camera.try_read()
            yield picture(self.state.level)


class Saving(kinds.Generated):
    """Saves its worlds, which are larger than what is under way between the processes at a time."""

    saves = Saves("large")

    @session_started
    def fill(self) -> None:
        self.large = np.zeros(LARGE, np.uint8)


KINDS: dict[str, type[Any]] = kinds.KINDS | {"two ranks": Ranked, "saving": Saving}


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
