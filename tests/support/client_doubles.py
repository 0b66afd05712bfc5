"""Test doubles of the server: a scripted Transport, and a WebSocket server on in-memory bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import anyio
from anyio.abc import ByteStream, ObjectReceiveStream, ObjectSendStream
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Request, TextMessage

from reactor_trio.client import TransportClosed
from reactor_trio.protocol import Packet, encode_packet

BACKENDS = ["asyncio", "trio"]

VIDEO = {
    "index": 0, "name": "main_video", "kind": "video", "direction": "out", "codec": "raw", "width": 2, "height": 1,
}  # fmt: skip
SOUND = {"index": 1, "name": "sound", "kind": "audio", "direction": "out", "codec": "pcm_s16le", "sample_rate": 48000}
CAMERA = {"index": 2, "name": "camera", "kind": "video", "direction": "in", "codec": "raw"}


def welcome(*tracks: dict[str, Any]) -> dict[str, Any]:
    return {
        "session_id": "s1", "protocol": 1, "name": "glow", "role": "control", "heartbeat": 10,
        "resume_token": None, "upload_token": None, "schema": {"commands": []}, "tracks": tracks or [VIDEO],
    }  # fmt: skip


def packet(seq: int, payload: bytes = b"\0" * 6, *, track: int = 0, command: int | None = None) -> bytes:
    return encode_packet(Packet(track, seq, seq * 100_000, 1, command, seq, {}, memoryview(payload)))


class ScriptedTransport:
    """A Transport whose other end is the test. The client receives `say` and `frame`; `sent` has its texts."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed_with: int | None = None
        self.takes_nothing = False
        self._to_client, self._incoming = anyio.create_memory_object_stream[Any](math.inf)
        self._commands, self._outgoing = anyio.create_memory_object_stream[Any](math.inf)

    def say(self, type_: str, data: Any = None, **top: Any) -> None:
        self._to_client.send_nowait(json.dumps({"type": type_, "data": data or {}, **top}))

    def welcome(self, *tracks: dict[str, Any]) -> None:
        self.say("reactor.welcome", welcome(*tracks), n=1)

    def frame(self, seq: int, payload: bytes = b"\0" * 6, *, track: int = 0, command: int | None = None) -> None:
        self._to_client.send_nowait(packet(seq, payload, track=track, command=command))

    def say_raw(self, message: str | bytes) -> None:
        self._to_client.send_nowait(message)

    def close(self, code: int, reason: str = "") -> None:
        self._to_client.send_nowait(TransportClosed(code, reason))

    async def command(self) -> dict[str, Any]:
        """The client's next command."""
        return await self._outgoing.receive()

    async def receive(self) -> str | bytes:
        message = await self._incoming.receive()
        if isinstance(message, TransportClosed):
            self.close(message.code, message.reason)
            raise message
        return message

    async def send(self, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closed_with is not None or self.takes_nothing:
            raise TransportClosed(1006)
        self.sent.append(json.loads(text))
        self._commands.send_nowait(json.loads(text))

    async def send_bytes(self, data: bytes) -> None:
        raise NotImplementedError

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        if self.closed_with is None:
            self.closed_with = code
            self.close(1000)
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()

    def let_go(self) -> None:
        for stream in (self._to_client, self._incoming, self._commands, self._outgoing):
            stream.close()


class MemoryStream(ByteStream):
    """One end of an in-memory pipe."""

    def __init__(self, outgoing: ObjectSendStream[bytes], incoming: ObjectReceiveStream[bytes], most: int) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._most = most
        self._rest = b""
        self.closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._rest:
            self._rest = await self._incoming.receive()
        size = min(max_bytes, self._most)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    async def send(self, item: bytes) -> None:
        await self._outgoing.send(bytes(item))

    async def send_eof(self) -> None:
        await self._outgoing.aclose()

    async def aclose(self) -> None:
        self.closed = True
        await self._outgoing.aclose()
        await self._incoming.aclose()


def memory_pipe(*, most: int = 2**20, unread: float = math.inf) -> tuple[MemoryStream, MemoryStream]:
    """Return the client's and the server's end. The client reads `most` bytes at once; `unread` bounds its unread chunks."""
    to_server, from_client = anyio.create_memory_object_stream[bytes](unread)
    to_client, from_server = anyio.create_memory_object_stream[bytes](math.inf)
    return MemoryStream(to_server, from_server, most), MemoryStream(to_client, from_client, 2**20)


class WsServer:
    """A wsproto server that does only what the test says."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._websocket = WSConnection(ConnectionType.SERVER)
        self.request: Request

    async def accept(self, *more: Event, subprotocol: str | None = "reactor.v1") -> None:
        """Accept the handshake, and send `more` in the same piece."""
        self.request = await self.event()
        data = self._websocket.send(AcceptConnection(subprotocol=subprotocol))
        await self._stream.send(data + b"".join(self._websocket.send(event) for event in more))

    async def refuse(self, *events: Event) -> None:
        self.request = await self.event()
        await self._stream.send(b"".join(self._websocket.send(event) for event in events))

    async def send(self, *events: Event) -> None:
        await self._stream.send(b"".join(self._websocket.send(event) for event in events))

    async def send_raw(self, data: bytes) -> None:
        await self._stream.send(data)

    async def event(self) -> Any:
        while True:
            for event in self._websocket.events():
                return event
            self._websocket.receive_data(await self._stream.receive())

    async def message(self) -> str | bytes:
        """The client's next message as a whole."""
        pieces: list[Any] = []
        while True:
            event = await self.event()
            assert isinstance(event, TextMessage | BytesMessage), event
            pieces.append(event.data)
            if event.message_finished:
                return pieces[0][:0].join(pieces)

    async def answer_close(self) -> CloseConnection:
        event = await self.event()
        assert isinstance(event, CloseConnection), event
        await self.send(event.response())
        return event
