"""How whole messages travel: the `Transport` that the client needs, and the one over a WebSocket.

WebSocketTransport drives wsproto (the protocol without I/O) over any anyio byte stream. It has no task of its own, so
three rules decide who may touch what:

* Reading: `receive()` and the wait of `aclose()` for the peer's close both read, one at a time, under `_reading`.
  Whoever reads handles every event at once; whole messages wait in `_inbox`, so cancelling `receive()` loses nothing.
* Writing: under `_writing`, one message at a time. A pong or the answer to a close must not make the reader wait behind
  somebody's large message: it goes to `_replies`, and whoever holds the lock writes it before letting go.
* A message cut short is never followed by another. A write is therefore shielded from cancellation, one chunk at a
  time: what fits a chunk goes out whole, so cancelling a command leaves the connection usable, and the shield is
  bounded because a peer that takes no chunk for `WRITE_PATIENCE` is given up. Cancelled between two chunks, the stream
  is closed.

Order at the end: what arrived before a close is received before `TransportClosed` is raised.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

import anyio
from anyio.abc import ByteStream
from wsproto import WSConnection
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError

from reactor_trio.errors import ReactorError

READ_SIZE = 256 * 1024
MAX_MESSAGE_SIZE = 64 * 1024 * 1024
#: Fragments of a message; empty ones have no size that a limit would see.
MAX_FRAGMENTS = 16_384
CHUNK = 64 * 1024
#: Seconds in which the peer must take one chunk.
WRITE_PATIENCE = 5.0
#: Seconds that a close waits for the peer's close.
CLOSE_PATIENCE = 1.0

NO_CLOSE = 1006


class TransportClosed(ReactorError):
    """Nothing more can be received or sent; `code` is the WebSocket close code, 1006 if the link broke without one."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"closed with code {code}" + (f": {reason}" if reason else ""))
        self.code = code
        self.reason = reason


class Transport(Protocol):
    """Whole messages in both directions. `receive()` has one caller at a time; anyone may send meanwhile."""

    async def receive(self) -> str | bytes | bytearray | memoryview:
        """The next message: text as `str`, binary as bytes. Cancelling it loses nothing.

        Raises:
            TransportClosed: after the last message, also once `send` has raised it.
        """
        ...

    async def send(self, text: str) -> None:
        """Send one text message. Raises TransportClosed. A message that cancellation cut short closes the transport."""
        ...

    async def send_bytes(self, data: bytes) -> None:
        """Send one binary message; otherwise as `send`."""
        ...

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Close politely and let go of everything, within 1 s and also under cancellation. May be called again.

        With `NO_CLOSE`, 1006, which no close frame can say, it breaks the link without a word.
        """
        ...


class WebSocketTransport:
    """Messages over a WebSocket whose handshake is done; `open_websocket` makes one.

    Args:
        stream: the byte stream, from now on this object's to close.
        websocket: wsproto's state after the handshake, with whatever it has already read behind it.
        max_message_size: bytes (for text: characters); a longer message closes the connection with code 1009.
    """

    def __init__(
        self, stream: ByteStream, websocket: WSConnection, *, max_message_size: int = MAX_MESSAGE_SIZE
    ) -> None:
        self._stream = stream
        self._websocket = websocket
        self._max_message_size = max_message_size
        self._reading = anyio.Lock()
        self._writing = anyio.Lock()
        self._inbox: deque[str | bytes] = deque()
        self._replies: deque[bytes] = deque()
        self._pieces: list[Any] = []
        self._size = 0
        self._end: tuple[int, str] | None = None
        self._writable = True
        self._silence = math.inf
        self._patience = anyio.CancelScope()
        self._take_events()

    def expect_byte_every(self, seconds: float) -> None:
        """From now on a peer that sends nothing for `seconds` is lost: code 1006. A half-open link shows in no other way."""
        self._silence = seconds
        self._patience.deadline = anyio.current_time() + seconds

    async def receive(self) -> str | bytes:
        """As `Transport.receive`; answers pings and the peer's close on the way."""
        async with self._reading:
            while not self._inbox:
                if self._end is not None:
                    raise TransportClosed(*self._end)
                await self._read()
            return self._inbox.popleft()

    async def send(self, text: str) -> None:
        """As `Transport.send`."""
        await self._send(TextMessage(data=text))

    async def send_bytes(self, data: bytes) -> None:
        """As `Transport.send_bytes`."""
        await self._send(BytesMessage(data=data))

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """As `Transport.aclose`: says `code`, waits up to 1 s for the peer's close, then drops the stream."""
        if code == NO_CLOSE:
            self._finish(code, reason or "broken on this side")
        with anyio.move_on_after(CLOSE_PATIENCE, shield=True), suppress(TransportClosed):
            await self._send(CloseConnection(code=code, reason=reason), CLOSE_PATIENCE)
            while self._end is None:
                async with self._reading:
                    if self._end is None:
                        await self._read()
        self._finish(NO_CLOSE, "the peer did not answer the close")
        await anyio.aclose_forcefully(self._stream)

    def _finish(self, code: int, reason: str = "") -> None:
        if self._end is None:
            self._end = (code, reason)

    # Reading

    async def _read(self) -> None:
        data = b""
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._silence) as self._patience:
                data = await self._stream.receive(READ_SIZE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._finish(NO_CLOSE, "the connection broke")
            return
        if not data:
            self._finish(NO_CLOSE, f"the peer was silent for {self._silence:g} s")
            return
        self._websocket.receive_data(data)
        self._take_events()
        if self._replies and not self._writing.locked():
            # A link that takes no reply may still hold messages for us; the next read tells when it ends.
            with suppress(TransportClosed):
                async with self._writing:
                    await self._write_replies(WRITE_PATIENCE)

    def _take_events(self) -> None:
        for event in self._websocket.events():
            if isinstance(event, TextMessage | BytesMessage):
                self._take_piece(event)
            elif isinstance(event, Ping):
                self._reply(event.response())
            elif isinstance(event, CloseConnection):
                self._reply(event.response())
                self._finish(int(event.code), event.reason or "")
            if self._end is not None:
                break

    def _take_piece(self, event: TextMessage | BytesMessage) -> None:
        self._size += len(event.data)
        if self._size > self._max_message_size or len(self._pieces) >= MAX_FRAGMENTS:
            reason = f"a message is larger than {self._max_message_size} bytes or {MAX_FRAGMENTS} fragments"
            self._reply(CloseConnection(code=1009, reason=reason))
            self._finish(1009, reason)
            return
        self._pieces.append(event.data)
        if event.message_finished:
            pieces, self._pieces, self._size = self._pieces, [], 0
            self._inbox.append(pieces[0] if len(pieces) == 1 else pieces[0][:0].join(pieces))

    def _reply(self, event: Pong | CloseConnection) -> None:
        # wsproto refuses a pong or a second close after our own close, where none is due.
        with suppress(LocalProtocolError):
            self._replies.append(self._websocket.send(event))

    # Writing

    async def _send(self, event: Event, patience: float = WRITE_PATIENCE) -> None:
        async with self._writing:
            if self._end is not None or not self._writable:
                raise TransportClosed(*(self._end or (NO_CLOSE, "the connection broke")))
            await self._write_replies(patience)
            try:
                data = self._websocket.send(event)
            except LocalProtocolError:
                raise TransportClosed(NO_CLOSE, "closed on this side") from None
            await self._write(data, patience)
            await self._write_replies(patience)

    async def _write_replies(self, patience: float) -> None:
        while self._replies:
            await self._write(self._replies.popleft(), patience)

    async def _write(self, data: bytes, patience: float) -> None:
        try:
            for start in range(0, len(data), CHUNK):
                if start:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                with anyio.fail_after(patience, shield=True):
                    await self._stream.send(data[start : start + CHUNK])
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._writable = False
            raise TransportClosed(NO_CLOSE, "the connection broke") from None
        except TimeoutError:
            self._writable = False
            await anyio.aclose_forcefully(self._stream)
            raise TransportClosed(NO_CLOSE, f"the peer took nothing for {patience:g} s") from None
        except BaseException:
            self._writable = False
            await anyio.aclose_forcefully(self._stream)
            raise
