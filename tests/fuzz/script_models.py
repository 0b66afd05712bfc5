"""The model of `test_session_machine`, in each of its forms: pictures that show the session's secret and its state."""

from __future__ import annotations

from typing import Any

import numpy as np
import trio

from reactor_trio.errors import CommandError
from reactor_trio.interface import (
    ClientInfo,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    command,
    connected,
    event,
    get_ctx,
)


class Screen(Output):
    main_video: Video


class Secret(ModelMessage):
    secret: int


class State(InputState):
    x: int = InputField(default=0, ge=0, le=99)
    y: int = 0


def shown(secret: int, x: int, y: int) -> Any:
    """A picture that says what it was made with."""
    return np.array([[[secret, x, y]]], np.uint8)


class Handlers:
    """What both trio models do. `log` has what handlers were called with: secret, name, value."""

    log: list[tuple[int, str, int]]
    sessions = 0

    def load(self, config: dict[str, Any]) -> None:
        self.log, self.cost, self.dying, self.secret = [], config["cost"], False, 0

    async def begin(self, client: ClientInfo) -> None:
        self.sessions += 1
        self.secret, self.dying = self.sessions, False
        await client.send(Secret(self.secret))

    def values(self) -> tuple[int, int]:
        raise NotImplementedError

    def note(self, name: str, value: int) -> list[int]:
        self.log.append((self.secret, name, value))
        return [self.secret, value, self.values()[0]]


class Pipeline(Handlers, ReactorPipeline):
    output: Screen
    state: State

    @connected
    async def on_connected(self, client: ClientInfo):
        await self.begin(client)

    def values(self):
        return self.state.x, self.state.y

    def inference(self):
        while True:
            if self.dying:
                raise ZeroDivisionError("the model's mistake")
            yield shown(self.secret, self.state.x, self.state.y)

    @event
    def mark(self, value: int):
        return self.note("mark", value)

    @event(dedupe=True)
    def refresh(self, value: int):
        return self.note("refresh", value)

    @event
    async def slow(self, value: int):
        await trio.sleep(0.3)
        return self.note("slow", value)

    @event
    def refuse(self, value: int):
        self.note("refuse", value)
        raise CommandError("refused_here", "not today")

    @event
    def broken(self, value: int):
        self.note("broken", value)
        raise RuntimeError("the handler's mistake")

    @event
    def die(self, value: int):
        self.dying = True
        return self.note("die", value)


class AsyncPipeline(Pipeline):
    async def inference(self):
        while True:
            if self.dying:
                raise ZeroDivisionError("the model's mistake")
            before = self.state.x, self.state.y
            await trio.sleep(0.01)
            assert before == (self.state.x, self.state.y), "the state changed inside a step"
            yield shown(self.secret, *before)


class RunLoop(Handlers, ReactorModel):
    output: Screen
    x = y = 0

    @connected
    async def on_connected(self, client: ClientInfo):
        self.x = self.y = 0
        await self.begin(client)

    def values(self):
        return self.x, self.y

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(shown(self.secret, self.x, self.y))

    @event
    def set_x(self, x: int = InputField(ge=0, le=99)):
        self.x = x

    @event
    def set_y(self, y: int):
        self.y = y

    @event
    def mark(self, value: int):
        return self.note("mark", value)

    @event(dedupe=True)
    def refresh(self, value: int):
        return self.note("refresh", value)

    @event
    async def slow(self, value: int):
        await trio.sleep(0.3)
        return self.note("slow", value)

    @event
    def refuse(self, value: int):
        self.note("refuse", value)
        raise CommandError("refused_here", "not today")

    @event
    def broken(self, value: int):
        self.note("broken", value)
        raise RuntimeError("the handler's mistake")


class Blocking(VideoModel):
    """Commands run beside `start_session`, one at a time."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.log: list[tuple[int, str, int]] = []
        self.secret = self.x = self.y = 0

    def start_session(self):
        self.secret += 1
        self.x = self.y = 0
        self.dying = False
        get_ctx().send({"type": "secret", "data": {"secret": self.secret}})
        while not get_ctx().should_stop():
            if self.dying:
                raise ZeroDivisionError("the model's mistake")
            get_ctx().emit_block(shown(self.secret, self.x, self.y))

    def note(self, name: str, value: int) -> list[int]:
        self.log.append((self.secret, name, value))
        return [self.secret, value, self.x]

    @command("set_x")
    def set_x(self, x: int = InputField(ge=0, le=99)):
        self.x = x

    @command("set_y")
    def set_y(self, y: int):
        self.y = y

    @command("mark")
    def mark(self, value: int):
        return self.note("mark", value)

    @command("refresh")
    def refresh(self, value: int):
        return self.note("refresh", value)

    @command("slow")
    def slow(self, value: int):
        return self.note("slow", value)

    @command("refuse")
    def refuse(self, value: int):
        self.note("refuse", value)
        raise CommandError("refused_here", "not today")

    @command("broken")
    def broken(self, value: int):
        self.note("broken", value)
        raise RuntimeError("the handler's mistake")

    @command("die")
    def die(self, value: int):
        self.dying = True
        return self.note("die", value)
