"""Clients that come, use one server and vanish, again and again; and what the server's process holds meanwhile.

The model counts its generators: each holds a context manager open, entered at its first step and left when it is closed.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fault_peers import PATIENCE, TEXT, RawClient, ReactorProcess, frame, opening, reactor_run

MODEL = '''
import contextlib
import gc
import time
import numpy as np
import trio
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    long: bool = False

class LongStep(ModelMessage):
    """The next step takes long."""

class Model(ReactorPipeline):
    fps = 120
    max_fps = 120
    state: State

    def load(self, config):
        self.entered = self.left = 0

    @contextlib.contextmanager
    def counted(self):
        self.entered += 1
        try:
            yield
        finally:
            self.left += 1

    async def inference(self):
        with self.counted():
            while True:
                if self.state.long:
                    await self.send(LongStep())
                    time.sleep(0.02)
                yield Picture(main=np.full((64, 64, 3), self.state.level, np.uint8))

    @event
    def counts(self):
        tasks = [task for task in gc.get_objects() if isinstance(task, trio.lowlevel.Task)]
        return {
            "entered": self.entered, "left": self.left, "garbage": len(gc.garbage),
            "tasks": sum(getattr(task, "coro", None) is not None and task.coro.cr_frame is not None for task in tasks),
        }

    @event
    def at_rest(self):
        return gc.get_freeze_count() > 0  # the last that a server does after its start
'''

#: Cycles after which caches and the allocator's pools are filled, and growth is a leak.
WARM = 200


@dataclass(frozen=True)
class Holding:
    """What the process holds while one client, which asks for it, has a session."""

    generators_entered: int
    generators_left: int
    tasks: int
    threads: int
    descriptors: tuple[str, ...]
    memory: int

    def as_few_as(self, other: Holding) -> bool:
        """Whether it holds no more tasks, threads and descriptors, and no generator but the asking client's."""
        return (
            self.tasks <= other.tasks and self.threads <= other.threads and self.descriptors == other.descriptors
            and self.generators_entered == self.generators_left + 1
        )  # fmt: skip


@dataclass(frozen=True)
class Cycled:
    """`fresh` was taken before the first cycle, `warm` after some, `end` after the last."""

    cycles: int
    by_moment: Counter[str]
    seconds: float
    fresh: Holding
    warm: Holding
    end: Holding

    @property
    def grown_by(self) -> int:
        """Bytes of resident memory since the server was warm."""
        return self.end.memory - self.warm.memory

    def __str__(self) -> str:
        moments = ", ".join(f"{count} {name}" for name, count in sorted(self.by_moment.items()))
        return (
            f"{self.cycles} cycles in {self.seconds:.1f} s ({moments})\n"
            f"generators: {self.end.generators_entered} begun, {self.end.generators_left} closed, one runs\n"
            f"tasks {self.fresh.tasks} -> {self.end.tasks}, threads {self.fresh.threads} -> {self.end.threads}, "
            f"descriptors {len(self.fresh.descriptors)} -> {len(self.end.descriptors)}\n"
            f"resident {self.fresh.memory / 2**20:.1f} -> {self.warm.memory / 2**20:.1f} (warm) -> "
            f"{self.end.memory / 2**20:.1f} MiB, {self.grown_by / 2**20:+.2f} MiB since it was warm"
        )


# ---- the moments at which a client vanishes ---------------------------------------------------------------------------


def before_welcome(client: RawClient, dice: random.Random) -> None:
    """Somewhere in the handshake; a session may begin for it or not."""
    request = opening()
    client.send(request[: dice.randint(0, len(request))] if dice.random() < 0.5 else request)


def after_frames(client: RawClient, dice: random.Random) -> None:
    """While it watches."""
    _enter(client)
    for _ in range(dice.randint(0, 4)):
        client.picture()


def with_commands_in_flight(client: RawClient, dice: random.Random) -> None:
    """With commands under way, the last perhaps cut short."""
    _enter(client)
    for number in range(dice.randint(1, 5)):
        client.say("set_level", number, level=dice.randint(0, 255))
    if dice.random() < 0.5:
        client.send(frame(TEXT, b'{"type": "set_level"')[:-4])


def in_mid_forward(client: RawClient, dice: random.Random) -> None:
    """While its session's step computes."""
    _enter(client)
    client.say("set_long", long=True)
    client.text("long_step")


IN_SESSION = (after_frames, with_commands_in_flight, in_mid_forward)


def _enter(client: RawClient) -> None:
    """Have a session whose generator has begun."""
    client.send(opening())
    client.response(body=False)
    client.picture()


# ---- cycles -----------------------------------------------------------------------------------------------------------


def cycle(folder: Path, cycles: int, *, seed: int = 1) -> Cycled:
    """Let `cycles` clients have a session of one server and vanish, and a third as many on the way to one.

    Raises AssertionError if tasks, threads or descriptors do not come back to what they were.
    """
    dice, moments = random.Random(seed), Counter[str]()
    with reactor_run(folder, MODEL) as server:
        wait_for_rest(server)
        fresh = settled(server, None)
        warm, began = fresh, time.monotonic()
        for number in range(cycles):
            if number == min(WARM, cycles // 2):
                warm = settled(server, fresh)
            for moment in (dice.choice(IN_SESSION), *([before_welcome] if number % 3 == 0 else [])):
                moments[moment.__name__] += 1
                with RawClient(server.port, upgrade=False) as client:
                    moment(client, dice)
                    client.vanish()
        took = time.monotonic() - began
        end = settled(server, fresh)
        assert "Traceback" not in server.log, server.log
    return Cycled(cycles, moments, took, fresh, warm, end)


def _replies(client: RawClient, command: str) -> Iterator[Any]:
    """What the model replies to the command, again and again, each time after a picture."""
    for number in itertools.count(1):
        client.picture()
        client.say(command, number)
        yield client.answer(number)["data"]["reply"]


def wait_for_rest(server: ReactorProcess) -> None:
    """Until the server has done all that belongs to its start; what it holds meanwhile is no measure.

    Before that nothing asks for all objects: a thread that imports has tuples under way, which Python cannot finish once
    somebody else has seen them (SystemError, "bad argument to internal function").
    """
    until = time.monotonic() + PATIENCE
    with RawClient(server.port) as client:
        for at_rest in _replies(client, "at_rest"):
            if at_rest:
                return
            assert time.monotonic() < until, "the start did not end"


def settled(server: ReactorProcess, fresh: Holding | None) -> Holding:
    """What the server holds for a client that has it to itself, once the last of the vanished is gone."""
    until = time.monotonic() + PATIENCE
    with RawClient(server.port) as client:
        for counts in _replies(client, "counts"):
            held = Holding(
                counts["entered"], counts["left"], counts["tasks"], server.threads(),
                tuple(server.descriptors()), server.memory(),
            )  # fmt: skip
            if fresh is None or held.as_few_as(fresh):
                return held
            assert time.monotonic() < until, f"{held} is left of {fresh}"
    raise AssertionError("the model stopped counting")
