"""Transports of whole messages: the `Transport` that the client needs, and the one over a WebSocket.

WebSocketTransport drives wsproto (the protocol without I/O) over any anyio byte stream. It has no task of its own. Its
callers share the work by three rules:

* Reading: `receive()`, `wait_message()`, and the wait of `aclose()` for the peer's close, read one at a time, under
  `_reading`. The task that reads handles all events at once. Complete messages wait in `_inbox`, so cancelling `receive()`
  loses nothing.
* Writing: one message at a time, under `_writing`. A pong or the answer to a close waits in `_pong` or `_farewell`, and the
  task that holds the lock writes it before it releases the lock. So the reader never waits for another task's large message.
  Only the newest ping is answered (RFC 6455 5.5.3): a peer whose pings come faster than it reads costs no memory.
* Nothing follows an incomplete message. A write is therefore shielded from cancellation, one chunk at a time. A message of
  one chunk is written completely, so cancelling a command leaves the connection usable. The shield is bounded: a peer that
  takes no chunk for `WRITE_PATIENCE` seconds is dropped. Cancelled between two chunks, a write closes the stream.

At the end, `receive()` first returns the messages that arrived before the close, then raises TransportClosed.
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
from reactor_trio.protocol.close_codes import ABNORMAL, CLOSE_WAIT, MAX_FRAGMENTS, NORMAL, TOO_BIG

READ_SIZE = 256 * 1024
MAX_MESSAGE_SIZE = 64 * 1024 * 1024
CHUNK = 64 * 1024
#: Seconds in which the peer must take one chunk.
WRITE_PATIENCE = 5.0


class TransportClosed(ReactorError):
    """The connection is over; `code` is the WebSocket close code, 1006 if the link broke without a close frame."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"closed with code {code}" + (f": {reason}" if reason else ""))
        self.code = code
        self.reason = reason


class Transport(Protocol):
    """Sends and receives whole messages. `receive()` has one caller at a time; any task may send meanwhile."""

    async def receive(self) -> str | bytes | bytearray | memoryview:
        """Return the next message: text as `str`, binary as bytes. Cancellation loses nothing.

        Raises:
            TransportClosed: after the last message, also when `send` has raised it before.
        """

    async def send(self, text: str) -> None:
        """Send one text message. Raises TransportClosed. Cancelled within the message, it closes the transport."""

    async def send_bytes(self, data: bytes) -> None:
        """Send one binary message; otherwise as `send`."""

    async def aclose(self, code: int = NORMAL, reason: str = "") -> None:
        """Close politely and release everything, within 1 s and also under cancellation. May be called again.

        With `ABNORMAL`, 1006, a code that no close frame can carry, it breaks the link without a close frame.
        """


class WebSocketTransport:
    """Messages over a WebSocket after its handshake; `open_websocket` makes one.

    Args:
        stream: the byte stream. This object closes it.
        websocket: wsproto's state after the handshake, with any data that it has already read.
        max_message_size: most bytes of a message (for text: characters); a longer one closes the connection with code 1009.
    """

    def __init__(self, stream: ByteStream, websocket: WSConnection, *, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        self._stream = stream
        self._websocket = websocket
        self._max_message_size = max_message_size
        self._reading = anyio.Lock()
        self._writing = anyio.Lock()
        self._inbox: deque[str | bytes] = deque()
        self._pong = self._farewell = b""
        self._pieces: list[Any] = []
        self._size = 0
        self._end: tuple[int, str] | None = None
        self._writable = True
        self._silence = math.inf
        self._patience = anyio.CancelScope()
        self._take_events()

    def expect_byte_every(self, seconds: float) -> None:
        """From now on, treat a peer that sends nothing for `seconds` as lost (code 1006), as a half-open link shows in no
        other way.
        """
        self._silence = seconds
        self._patience.deadline = anyio.current_time() + seconds

    async def receive(self) -> str | bytes:
        """Return the next message as `Transport.receive` does; answer pings and the peer's close meanwhile."""
        async with self._reading:
            if not await self._filled():
                assert self._end is not None
                raise TransportClosed(*self._end)
            return self._inbox.popleft()

    async def wait_message(self) -> bool:
        """Wait until `receive` has a message. Returns False if the connection has ended without one."""
        async with self._reading:
            return await self._filled()

    async def send(self, text: str) -> None:
        """As `Transport.send`."""
        await self._send(TextMessage(data=text))

    async def send_bytes(self, data: bytes) -> None:
        """As `Transport.send_bytes`."""
        await self._send(BytesMessage(data=data))

    async def aclose(self, code: int = NORMAL, reason: str = "") -> None:
        """Send `code`, wait up to 1 s for the peer's close, then drop the stream."""
        if code == ABNORMAL:
            self._finish(code, reason or "broken on this side")
        with anyio.move_on_after(CLOSE_WAIT, shield=True), suppress(TransportClosed):
            await self._send(CloseConnection(code=code, reason=reason), CLOSE_WAIT)
            while self._end is None:
                async with self._reading:
                    if self._end is None:
                        await self._read()
        self._finish(ABNORMAL, "the peer did not answer the close")
        await anyio.aclose_forcefully(self._stream)

    def _finish(self, code: int, reason: str = "") -> None:
        if self._end is None:
            self._end = (code, reason)

    # Reading

    async def _filled(self) -> bool:
        """Read until there is a message. Returns False if the connection has ended without one."""
        while not self._inbox and self._end is None:
            await self._read()
        return bool(self._inbox)

    async def _read(self) -> None:
        data = b""
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._silence) as self._patience:
                data = await self._stream.receive(READ_SIZE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._finish(ABNORMAL, "the connection broke")
            return
        if not data:
            self._finish(ABNORMAL, f"the peer was silent for {self._silence:g} s")
            return
        self._websocket.receive_data(data)
        self._take_events()
        if (self._pong or self._farewell) and not self._writing.locked():
            # A link that takes no reply may still hold messages for this client; a later read finds its end.
            with suppress(TransportClosed):
                async with self._writing:
                    await self._write_replies(WRITE_PATIENCE)

    def _take_events(self) -> None:
        for event in self._websocket.events():
            if isinstance(event, TextMessage | BytesMessage):
                self._take_piece(event)
            elif isinstance(event, Ping):
                self._pong = self._reply(event.response()) or self._pong
            elif isinstance(event, CloseConnection):
                self._farewell = self._reply(event.response())
                self._finish(int(event.code), event.reason or "")
            if self._end is not None:
                break

    def _take_piece(self, event: TextMessage | BytesMessage) -> None:
        self._size += len(event.data)
        if self._size > self._max_message_size or len(self._pieces) >= MAX_FRAGMENTS:
            reason = f"a message is larger than {self._max_message_size} bytes or {MAX_FRAGMENTS} fragments"
            self._farewell = self._reply(CloseConnection(code=TOO_BIG, reason=reason))
            self._finish(TOO_BIG, reason)
            return
        self._pieces.append(event.data)
        if event.message_finished:
            pieces, self._pieces, self._size = self._pieces, [], 0
            self._inbox.append(pieces[0] if len(pieces) == 1 else pieces[0][:0].join(pieces))

    def _reply(self, event: Pong | CloseConnection) -> bytes:
        # wsproto refuses a pong or a second close after this side's close; then no reply is due.
        with suppress(LocalProtocolError):
            return self._websocket.send(event)
        return b""

    # Writing

    async def _send(self, event: Event, patience: float = WRITE_PATIENCE) -> None:
        async with self._writing:
            if self._end is not None or not self._writable:
                raise TransportClosed(*(self._end or (ABNORMAL, "the connection broke")))
            await self._write_replies(patience)
            try:
                data = self._websocket.send(event)
            except LocalProtocolError:
                raise TransportClosed(ABNORMAL, "closed on this side") from None
            await self._write(data, patience)
            await self._write_replies(patience)

    async def _write_replies(self, patience: float) -> None:
        while self._pong or self._farewell:
            replies, self._pong, self._farewell = self._pong + self._farewell, b"", b""
            await self._write(replies, patience)

    async def _write(self, data: bytes, patience: float) -> None:
        self._writable = False  # until all of `data` is written
        try:
            for start in range(0, len(data), CHUNK):
                if start:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                with anyio.fail_after(patience, shield=True):
                    await self._stream.send(data[start : start + CHUNK])
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise TransportClosed(ABNORMAL, "the connection broke") from None
        except BaseException as error:
            await anyio.aclose_forcefully(self._stream)
            if isinstance(error, TimeoutError):
                raise TransportClosed(ABNORMAL, f"the peer took nothing for {patience:g} s") from None
            raise
        self._writable = True
