"""A client of bytes over a stream in memory. It has no object of the package, so what a server holds is the server's own."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import anyio
import numpy as np

from reactor_trio.protocol import Packet, encode_packet
from reactor_trio.testing.memory_server import TestServer
from tests.support.transport_peers import frame, opening

TEXT, BINARY, CLOSE = 1, 2, 8


class Visitor:
    """One client of `server`, over the real HTTP and WebSocket framing."""

    def __init__(self, server: TestServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self.welcome: dict[str, Any] = {}
        #: the reason of `reactor.bye`; empty without one
        self.bye = ""
        #: the newest answer, and the newest message `reactor.saved`, with its data
        self.answered: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}

    async def open(self, path: str = "/ws?video=raw") -> Visitor:
        """Connect, and read until the welcome."""
        await self.open_waiting(path)
        while not self.welcome:
            assert await self.message() is not None, f"no welcome: {self.bye}"
        return self

    async def open_waiting(self, path: str) -> None:
        """Connect, and read no message: the client may have to wait."""
        self._stream = await self._server._open_stream()
        await self._stream.send(opening(path=path, host="127.0.0.1"))
        while b"\r\n\r\n" not in self._buffer:
            await self._fill()
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), bytes(head)
        self._buffer = rest

    async def get(self, path: str) -> bytes:
        """Ask for a page over a connection of its own; returns all that comes."""
        self._stream = await self._server._open_stream()
        await self._stream.send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        with suppress(anyio.EndOfStream):
            while True:
                await self._fill()
        await self._stream.aclose()
        return bytes(self._buffer)

    async def message(self) -> int | None:
        """Read one message and note what this needs of it; returns its opcode, None at the end of the connection."""
        try:
            first, size = await self._take(2)
            size &= 0x7F
            if size > 125:
                size = int.from_bytes(await self._take(2 if size == 126 else 8), "big")
            payload = await self._take(size)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
        if first & 0xF == TEXT:
            text = json.loads(payload)
            if text["type"] == "reactor.welcome":
                self.welcome = text["data"]
            elif text["type"] == "reactor.bye":
                self.bye = text["data"]["reason"]
            elif text["type"] in ("reactor.ack", "reactor.error"):
                self.answered = text
            elif text["type"] == "reactor.saved":
                self.saved = text["data"]
        return first & 0xF

    async def pictures(self, number: int = 1) -> None:
        """Read until so many pictures have come."""
        while number:
            opcode = await self.message()
            assert opcode is not None, f"the session ended: {self.bye}"
            number -= opcode == BINARY

    async def until_over(self) -> str:
        """Read to the end of the connection; returns the reason of the goodbye."""
        while await self.message() is not None:
            pass
        await self._stream.aclose()
        return self.bye

    async def say(self, type_: str, id_: int | None = None, /, **data: Any) -> None:
        """Send a command."""
        await self.text(json.dumps({"type": type_, "data": data} | ({} if id_ is None else {"id": id_})).encode())

    async def text(self, data: bytes) -> None:
        """Send a text message as it is."""
        await self._stream.send(frame(TEXT, data))

    async def push(self, height: int, width: int, *, track: int) -> None:
        """Send one black picture to an input track."""
        payload = memoryview(np.zeros((height, width, 3), np.uint8)).cast("B")
        meta = {"codec": "raw", "width": width, "height": height}
        await self._stream.send(frame(BINARY, encode_packet(Packet(track, 0, 0, 1, None, 0, meta, payload))))

    async def upload(self, data: bytes) -> str:
        """Upload a file; returns its id."""

        async def body() -> Any:
            yield data

        headers = {"authorization": f"Bearer {self.welcome['upload_token']}", "content-length": str(len(data))}
        status, answer, _refusal = await self._server._post("/uploads?name=a&mime_type=image/png", headers, body())
        assert status in (200, 201), answer
        upload_id: str = json.loads(answer)["upload_id"]
        return upload_id

    async def leave(self) -> None:
        """Close the WebSocket politely, and read to the end of the connection."""
        await self._stream.send(frame(CLOSE, (1000).to_bytes(2, "big")))
        await self.until_over()

    async def vanish(self) -> None:
        """Break the connection without a word."""
        await self._stream.aclose()

    async def _fill(self) -> None:
        self._buffer += await self._stream.receive(1 << 20)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._fill()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken
