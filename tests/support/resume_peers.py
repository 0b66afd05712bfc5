"""A client by hand that does what the protocol asks of one that comes back, and a world that remembers what it was told."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import trio

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.interface import ModelMessage, ReactorPipeline, connected, disconnected, event
from reactor_trio.protocol import Packet, decode_packet
from reactor_trio.protocol.close_codes import ABNORMAL
from reactor_trio.testing import Link
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.testing.memory_server import TestServer
from tests.support.behaviour_models import picture
from tests.support.models import Picture


class Added(ModelMessage):
    value: int


class World(ReactorPipeline):
    """Counts its pictures; remembers what was added, and when it was woken and let go."""

    output: Picture
    fps = 10

    def __init__(self) -> None:
        self.log: list[tuple[float, str]] = []
        self.added: list[int] = []

    def note(self, what: str) -> None:
        self.log.append((round(trio.current_time(), 6), what))

    @connected
    def request(self) -> None:
        self.note("connected")

    @disconnected
    def goodbye(self) -> None:
        self.note("disconnected")

    @event
    async def add(self, value: int) -> int:
        self.added.append(value)
        await self.send(Added(value=value))
        return len(self.added)

    @event
    async def chatter(self, count: int, size: int = 0) -> None:
        for value in range(count):
            await self.send(Said(value=value, text="x" * size))

    def inference(self):
        self.note("begun")
        number = 0
        try:
            while True:
                self.note(f"step {number}")
                yield picture(number % 256)
                number += 1
        finally:
            self.note("closed")


class Said(ModelMessage):
    value: int
    text: str


class Returner:
    """A controlling client that keeps its unanswered commands and the number of the last message, and comes back."""

    def __init__(self, server: TestServer, nursery: trio.Nursery, video: str = "none") -> None:
        self.server = server
        self.nursery = nursery
        self.video = video
        #: every text of this session that counts, as it came
        self.texts: list[dict[str, Any]] = []
        self.welcomes: list[dict[str, Any]] = []
        self.frames: list[tuple[float, Packet]] = []
        self.byes: list[str] = []
        self.commands: list[str] = []
        self.last = 1
        self.transport: Any = None
        self._listening = trio.CancelScope()
        self.gone = trio.Event()
        self._heard = RepeatedEvent()

    @property
    def welcome(self) -> dict[str, Any]:
        return self.welcomes[-1]

    async def connect(self, link: Link | None = None, **query: Any) -> None:
        """Connect, or come back if a token is known; returns with the welcome, or when there was none."""
        self._listening.cancel()  # it has given up the connection that it had, whatever still comes on that
        await trio.testing.wait_all_tasks_blocked()
        asked = {"video": self.video} | query
        if self.welcomes and "resume" not in query:
            asked |= {"resume": self.welcome["resume_token"], "after": self.last}
        url = "ws://127.0.0.1/ws?" + urlencode(asked)
        if self.server._websocket:
            self.transport = await self.server._open_websocket(url, Stall())
        else:
            self.transport = await self.server._open_memory(url, Stall(), link=link)
        self.gone = trio.Event()
        self._listening = trio.CancelScope()
        seen = len(self.welcomes)
        self.nursery.start_soon(self._listen, self.transport, self.gone)
        while len(self.welcomes) == seen and not self.gone.is_set():
            await self._heard.wait()
        if len(self.welcomes) > seen and self.welcome["resumed"]:
            for text in self.commands[self.welcome["received"]:]:
                await self.transport.send(text)

    async def command(self, name: str, **arguments: Any) -> None:
        """Send it, or keep it for later if the connection is lost."""
        text = json.dumps({"type": name, "data": arguments, "id": len(self.commands) + 1})
        self.commands.append(text)
        with suppress(TransportClosed):
            await self.transport.send(text)

    async def vanish(self) -> None:
        await self.transport.aclose(ABNORMAL)
        await trio.testing.wait_all_tasks_blocked()

    async def leave(self, code: int = 1000) -> None:
        await self.transport.aclose(code, "")
        await trio.testing.wait_all_tasks_blocked()

    def of(self, type_: str) -> list[Any]:
        return [text["data"] for text in self.texts if text["type"] == type_]

    @property
    def answers(self) -> list[int]:
        """The ids that were answered, in order."""
        return [text["id"] for text in self.texts if "id" in text]

    async def _listen(self, transport: Any, gone: trio.Event) -> None:
        try:
            with self._listening:
                while True:
                    message = await transport.receive()
                    if isinstance(message, str):
                        self._hear(json.loads(message))
                    else:
                        self.frames.append((round(trio.current_time(), 6), decode_packet(message)))
        except TransportClosed:
            gone.set()
            self._heard.set()

    def _hear(self, text: dict[str, Any]) -> None:
        if text["type"] == "reactor.bye":
            self.byes.append(text["data"]["reason"])
        elif text["type"] == "reactor.welcome":
            assert text["n"] == 1
            self.welcomes.append(text["data"])
            self._heard.set()
        elif text["type"] != "reactor.queued":
            assert text["n"] > self.last, "a message came twice, or out of order"
            self.last = text["n"]
            self.texts.append(text)


@asynccontextmanager
async def returner(server: TestServer, video: str = "none", **query: Any) -> AsyncGenerator[Returner, None]:
    """A connected one; it is gone without a word in the end."""
    async with trio.open_nursery() as nursery:
        peer = Returner(server, nursery, video)
        await peer.connect(**query)
        yield peer
        nursery.cancel_scope.cancel()
