"""What the behaviour tests share: an output class, pictures of one value, and a client that says whatever it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_trio.client import Frame
from reactor_trio.client.client_transport import Transport
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.testing.memory_server import TestServer

#: The model in the test's loop; on its own thread; behind the real WebSocket framing.
PLACEMENTS: list[dict[str, Any]] = [{}, {"thread": True}, {"websocket": True}]
in_all_placements = pytest.mark.parametrize("placement", PLACEMENTS, ids=["inline", "thread", "websocket"])


def picture(value: int) -> NDArray[np.uint8]:
    return np.full((2, 2, 3), value, np.uint8)


def shown(frames: Iterable[Frame]) -> list[int]:
    """The values of pictures of one value."""
    return [int(frame.data[0, 0, 0]) for frame in frames]


class RawPeer:
    """A controlling client without video that sends text as it stands."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def say(self, message: str | bytes | dict[str, Any]) -> None:
        if isinstance(message, bytes):
            await self._transport.send_bytes(message)
        else:
            await self._transport.send(message if isinstance(message, str) else json.dumps(message))

    async def command(self, name: str, id: int | None = None, /, **arguments: Any) -> None:  # noqa: A002 - the wire's word
        await self.say({"type": name, "data": arguments} | ({} if id is None else {"id": id}))

    async def hear(self) -> dict[str, Any]:
        """The server's next text message, without its number `n`."""
        message = json.loads(await self._transport.receive())
        message.pop("n", None)
        return message

    async def answer(self) -> dict[str, Any]:
        """The server's next answer to a command; other messages before it are passed over."""
        while "id" not in (message := await self.hear()):
            pass
        return message


@asynccontextmanager
async def raw_peer(server: TestServer, query: str = "role=control") -> AsyncGenerator[RawPeer, None]:
    """Connect; what the server says first is the caller's to read."""
    transport = await server._open_memory(f"ws://127.0.0.1:8080/ws?video=none&{query}", Stall())
    try:
        yield RawPeer(transport)
    finally:
        await transport.aclose()


@asynccontextmanager
async def raw_session(server: TestServer, query: str = "role=control") -> AsyncGenerator[RawPeer, None]:
    """Connect and read the welcome."""
    async with raw_peer(server, query) as peer:
        assert (await peer.hear())["type"] == "reactor.welcome"
        yield peer


def ack(id: int, step: int, reply: Any = None) -> dict[str, Any]:  # noqa: A002
    return {"type": "reactor.ack", "id": id, "data": {"step": step, "reply": reply}}


def refusal(id: int | None, code: str, message: str) -> dict[str, Any]:  # noqa: A002
    answer: dict[str, Any] = {"type": "reactor.error", "data": {"code": code, "message": message}}
    return answer if id is None else answer | {"id": id}
