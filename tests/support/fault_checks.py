"""What must hold after a fault, seen from outside of the real server process.

`after(server, ...)` is that check: the next client is served, /health says so, the process holds what it held before, and
the log has the entries that were named, each once and on one line, and no other above INFO. `Witness` is a client that must
not notice.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reactor_trio.protocol import decode_packet
from tests.support.fault_peers import BINARY, PATIENCE, TEXT, Gone, RawClient, ReactorProcess, health

#: A model that can fail in many ways, asked by commands; `counts` says what its process holds.
MODEL = '''
import contextlib
import gc
import threading
import numpy as np
import trio
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    size: int = InputField(default=8, ge=8, le=1024)
    block: bool = False
    file: UploadedFile | None = InputField(default=None)

class Model(ReactorPipeline):
    fps = 60
    state: State

    def load(self, config):
        self.entered = self.left = 0

    def inference(self):
        self.entered += 1
        try:
            while True:
                if self.state.block:
                    self.state.block = False
                    with open("gate") as gate:
                        gate.read()
                yield Picture(main=np.full((self.state.size, self.state.size, 3), self.state.level, np.uint8))
        finally:
            self.left += 1

    @event
    def counts(self):
        at_rest = gc.get_freeze_count() > 0  # the last that a server does after its start
        gc.collect()
        # Not before: to look at a tuple that another thread's import is making breaks that import (SystemError).
        tasks = [task for task in gc.get_objects() if isinstance(task, trio.lowlevel.Task)] if at_rest else []
        return {
            "open": self.entered - self.left,
            "tasks": sum(getattr(task, "coro", None) is not None and task.coro.cr_frame is not None for task in tasks),
            "threads": sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("Trio")),
            "at_rest": at_rest,
        }
'''

_ENTRY = re.compile(r"\S*\d\d:\d\d:\d\d\S* +\[?(DEBUG|INFO|WARNING|ERROR|CRITICAL) *\]? *(.*)", re.IGNORECASE)

#: bytes that allocators and caches may keep after one fault
GROWTH = 24 << 20


def wait_for(condition: Callable[[], Any], what: object = "it") -> None:
    """Until `condition()` is true. Raises AssertionError when it does not become so."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"{what() if callable(what) else what} did not happen"
        time.sleep(0.005)


@dataclass(frozen=True)
class Entry:
    """One entry of the log; `traceback` if one came with it."""

    level: str
    text: str
    traceback: bool = False


def entries(log: str) -> list[Entry]:
    """The entries of a server's log, be it text or JSON; what else stands there has the level STDERR."""
    found: list[Entry] = []
    for line in log.splitlines():
        if line.startswith("{"):
            values = json.loads(line)
            text = str(values.get("message", values.get("event", "")))
            found.append(Entry(values["level"].upper(), text, "traceback" in values or "exception" in values))
        elif match := _ENTRY.match(line):
            found.append(Entry(match[1].upper(), match[2]))
        elif "Traceback (most recent call last)" in line and found:
            found[-1] = Entry(found[-1].level, found[-1].text, traceback=True)
        elif line and not (found and (found[-1].traceback or line.startswith((" ", "\t", "|", "+")))):
            found.append(Entry("STDERR", line))
    return found


@dataclass(frozen=True)
class Holding:
    """What the server's process holds while one client has a session."""

    tasks: int
    generators: int
    threads: tuple[str, ...]
    descriptors: tuple[str, ...]
    memory: int

    def more_than(self, other: Holding) -> list[str]:
        """What there is of it that `other` has not, in words."""
        more = []
        if self.tasks > other.tasks:
            more.append(f"{self.tasks} tasks, not {other.tasks}")
        if self.generators > other.generators:
            more.append(f"{self.generators} generators, not {other.generators}")
        if set(self.threads) - set(other.threads):
            more.append(f"threads {set(self.threads) - set(other.threads)}")
        if len(self.descriptors) > len(other.descriptors):
            more.append(f"descriptors {self.descriptors}, not {other.descriptors}")
        if self.memory > other.memory + GROWTH:
            more.append(f"{(self.memory - other.memory) >> 20} MiB more")
        return more


def holding(server: ReactorProcess) -> Holding:
    """Take a session, see a picture, ask."""
    with RawClient(server.port, pongs=True) as client:
        client.picture()
        client.say("counts", 1)
        counts = client.answer(1)["data"]["reply"]
        return Holding(
            counts["tasks"], counts["open"], tuple(counts["threads"]), tuple(server.descriptors()), server.memory()
        )


def wait_for_rest(server: ReactorProcess) -> None:
    """Until the server has done all that belongs to its start."""

    def at_rest() -> bool:
        with RawClient(server.port, pongs=True) as client:
            client.picture()
            client.say("counts", 1)
            return bool(client.answer(1)["data"]["reply"]["at_rest"])

    wait_for_encoders(server)  # a WebSocket that comes before waits for them, and its handshake has a limit
    wait_for(at_rest, "the end of the start")


def wait_for_encoders(server: ReactorProcess) -> None:
    """Until no client has to wait for what the start still finds out."""
    wait_for(lambda: health(server.port)[1]["encoders"], "the end of the preparation")


@contextmanager
def after(server: ReactorProcess, *expected: str, tracebacks: int = 0) -> Iterator[None]:
    """Around a fault: afterwards all is as before, and the log has one entry for each of the patterns `expected`."""
    before = holding(server)
    seen = len(entries(server.log))
    yield
    found: list[str] = ["?"]

    def as_before() -> bool:
        found[:] = holding(server).more_than(before)
        return not found

    wait_for(as_before, lambda: f"left of it: {found}")
    status, body = health(server.port)
    assert (status, body["status"]) == (200, "ok")
    assert body["waiting"] == 0
    new = [entry for entry in entries(server.log)[seen:] if entry.level not in ("INFO", "DEBUG")]
    assert len(new) == len(expected), new
    for pattern in expected:
        assert [entry.text for entry in new if re.search(pattern, entry.text)], (pattern, new)
    assert sum(entry.traceback for entry in new) == tracebacks, server.log


class Witness:
    """A client that controls a session and reads on in a thread of its own; the block's end asks whether it is well."""

    def __init__(self, server: ReactorProcess, path: str = "/ws?video=raw") -> None:
        self.client = RawClient(server.port, path, pongs=True)
        self.welcome = self.client.text("reactor.welcome")["data"]
        self.frames = 0
        self.longest_pause = 0.0
        self.end: Gone | None = None
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        last = time.monotonic()
        try:
            while True:
                opcode, payload = self.client.next_frame()
                if opcode == BINARY:
                    decode_packet(payload)
                    self.frames += 1
                    self.longest_pause = max(self.longest_pause, time.monotonic() - last)
                    last = time.monotonic()
                elif opcode == TEXT:
                    message = json.loads(payload)
                    if "id" in message:
                        self._answers[message["id"]] = message
        except (Gone, OSError, ValueError) as gone:
            self.end = gone if isinstance(gone, Gone) else Gone()

    def command(self, name: str, **arguments: Any) -> None:
        """Send a command and wait for its ack."""
        self._number += 1
        self.client.say(name, self._number, **arguments)
        wait_for(lambda: self._number in self._answers or self.end, f"an answer to {name}")
        assert self._answers[self._number]["type"] == "reactor.ack", self._answers

    def is_well(self) -> None:
        """It still has its session, its commands are answered and its pictures come."""
        self.command("set_level", level=5)
        frames = self.frames
        wait_for(lambda: self.frames > frames + 2 or self.end, "pictures")
        assert self.end is None

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.is_well()
        self.client.vanish()
        self._thread.join()
