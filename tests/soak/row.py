"""Sessions in a row at one real server: what its process weighs after the first two hundred, and after the last.

Nothing collects but the server itself, so this also shows what it frees when it is idle.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reactor_trio.concurrency.free_memory import IDLE
from tests.support.fault_peers import RawClient, ReactorProcess, ask, reactor_run

MODEL = """
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class Camera(Input):
    camera: Video

class State(InputState):
    level: int = 0
    file: UploadedFile | None = None

class Model(ReactorPipeline):
    fps = 60
    state: State
    input: Camera
    output: Picture

    def inference(self):
        while True:
            yield Picture(main=np.full((240, 320, 3), self.state.level, np.uint8))

    @event
    def size(self) -> int:
        return len(self.state.file.data)
"""

#: Seconds after the last session at which the process has given back what it does not use.
AT_REST = IDLE + 3

Visit = Callable[[ReactorProcess], None]


@dataclass(frozen=True)
class Row:
    """Bytes of resident memory: before the first session, after `warm` sessions, and after the last one; each at rest."""

    sessions: int
    warm: int
    seconds: float
    fresh: int
    after_warm: int
    end: int
    #: before the process came to rest
    busy: int

    @property
    def grown_by(self) -> int:
        """Bytes since `warm` sessions."""
        return self.end - self.after_warm

    def __str__(self) -> str:
        sizes = " -> ".join(f"{size / 2**20:.1f}" for size in (self.fresh, self.after_warm, self.busy, self.end))
        return (
            f"{self.sessions} sessions in {self.seconds:.0f} s, {self.warm} of them to warm up: resident {sizes} MiB "
            f"(fresh, warm, after the last, at rest), {self.grown_by / 2**20:+.2f} MiB"
        )


def row(folder: Path, visit: Visit, sessions: int, warm: int) -> Row:
    """Have sessions one after the other."""
    with reactor_run(folder, MODEL) as server:
        visit(server)
        fresh = _at_rest(server)
        began = time.monotonic()
        for _ in range(warm):
            visit(server)
        after_warm = _at_rest(server)
        for _ in range(sessions - warm):
            visit(server)
        busy, took = server.memory(), time.monotonic() - began
        end = _at_rest(server)
        assert "Traceback" not in server.log, server.log
    return Row(sessions, warm, took, fresh, after_warm, end, busy)


def watches(server: ReactorProcess) -> None:
    """See one picture, and leave."""
    with RawClient(server.port, "/ws?video=jpeg") as client:
        client.picture()


def brings_a_file(server: ReactorProcess, size: int = 60_000_000) -> None:
    """Put a big file into a field of the state, and leave. It asks for no pictures, since it does not read meanwhile."""
    with RawClient(server.port, "/ws?video=none") as client:
        token = client.text("reactor.welcome")["data"]["upload_token"]
        head = (
            f"POST /uploads?name=a&mime_type=image/png HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
            f"content-length: {size}\r\nconnection: close\r\n\r\n"
        )
        status, _, body = ask(server.port, head.encode() + bytes(size))
        assert status == 201, body
        client.say("set_file", 1, file={"upload_id": json.loads(body)["upload_id"]})
        client.answer(1)
        client.say("size", 2)
        assert client.answer(2)["data"]["reply"] == size


def _at_rest(server: ReactorProcess) -> int:
    time.sleep(AT_REST)
    return server.memory()
