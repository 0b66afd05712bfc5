"""WebSocket messages over a `WireStream`: trio-websocket reads, we write.

trio-websocket's reader task parses the client's frames and answers pings and close frames. Its sending side takes only
`bytes` and copies them twice, and a cancelled send leaves half a frame behind while the connection looks open. So we
frame our own messages and give header, head and payload to the `WireStream`, whose lock keeps them apart from the
reader's pongs.

`_Link` is the stream between the reader and the wire. It works around gaps of the library:

* Bytes that follow the handshake in the same segment reach h11 instead of the frame parser and are lost, and so are all
  bytes that are read before the handshake is accepted. Until then the link gives the reader only the head.
* When a client breaks the framing, the reader closes the stream without a close frame of 1002 or 1007. The link sends it.
* Nothing may follow a close frame. The link remembers the first one, which `PeerGone` also reports, and drops pongs after
  it. After the reader has sent a close frame it would read once more; the link prevents that.
* After its own close frame wsproto cannot answer a ping, and raises in the reader. `_read` expects that.
* The library keeps the fragments of a message until the last one arrives, and limits only their bytes: it would keep any
  number of empty fragments. The link counts them.
* The library's `aclose` waits forever for a silent peer, and does not close the stream after 1009. We do not call it, and
  the reader cannot close the wire: when the reader has ended for any reason, `_read` lingers and closes.

The reader waits while a message is not collected, and then answers no ping. So the conversation must always be receiving.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream
from wsproto.utilities import LocalProtocolError

from reactor_trio.transport.message_stream import MessageStream, PeerGone, PeerTooSlow
from reactor_trio.transport.peer_limits import Limits
from reactor_trio.transport.upgrade import STANDARD_HEADERS, Handshake
from reactor_trio.transport.wire_stream import Data, WireStream

logger = logging.getLogger(__name__)

#: Seconds that a close waits for the client's close frame.
CLOSE_WAIT = 1.0

_TEXT, _BINARY, _CLOSE, _PING = 0x81, 0x82, 0x88, 0x89  # opcodes with the FIN bit
_MAX_REASON = 123
_NO_STATUS, _ABNORMAL, _TOO_BIG, _INTERNAL_ERROR = 1005, 1006, 1009, 1011
_MAX_FRAGMENTS = 16_384
_RECEIVE_BUFFER = 64 * 1024  # trio-websocket's 4 KiB costs seven times the CPU


async def serve_websocket(
    wire: WireStream,
    handshake: Handshake,
    limits: Limits,
    serve_client: Callable[[MessageStream], Awaitable[None]],
    *,
    deadline: float,
) -> None:
    """Accept `handshake` on `wire` by `deadline` (Trio's clock), run `serve_client`, and close.

    When this returns, the connection is closed. PeerGone from `serve_client`, alone or in a group, is a normal end. Any other
    exception closes the WebSocket with 1011 and is raised in a group. If the client leaves before the handshake is complete,
    `serve_client` is not called.
    """
    link = _Link(wire, handshake.head)
    async with trio.open_nursery() as nursery:
        connection: WebSocketConnection | None = None
        with trio.CancelScope(deadline=deadline):
            connection = await nursery.start(_read, link, limits, handshake.subprotocol)
        if connection is not None:
            messages = WebSocketStream(connection, link, limits)
            nursery.start_soon(messages.heartbeat)
            try:
                await _until_gone(serve_client, messages)
            except Exception:
                await messages.aclose(_INTERNAL_ERROR, "internal error")
                raise
            await messages.aclose(1000, "")
        nursery.cancel_scope.cancel()


async def _until_gone(serve_client: Callable[[MessageStream], Awaitable[None]], messages: MessageStream) -> None:
    try:
        await serve_client(messages)
    except* PeerGone as gone:
        logger.debug("%s: conversation ended: %s", messages.peer, gone.exceptions[0])


async def _read(
    link: _Link,
    limits: Limits,
    subprotocol: str | None,
    *,
    task_status: trio.TaskStatus[WebSocketConnection | None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Task: run trio-websocket's reader from the handshake to its end. Then close the wire so that our last bytes arrive."""
    accepted = False
    try:
        async with trio.open_nursery() as reader:
            request = await wrap_server_stream(
                reader,
                link,
                max_message_size=max(limits.text_message, limits.binary_message),
                receive_buffer_size=_RECEIVE_BUFFER,
            )
            headers = [(name.encode(), value.encode()) for name, value in STANDARD_HEADERS.items()]
            connection = await request.accept(subprotocol=subprotocol, extra_headers=headers)
            link.open(connection)
            accepted = True
            task_status.started(connection)
    except* (LocalProtocolError, ConnectionClosed) as errors:
        logger.debug("%s: reader ended: %s", link.wire.peer, errors.exceptions[0])
    if not accepted:
        task_status.started(None)
    await link.wire.linger(CLOSE_WAIT)
    link.ended.set()


class _Link(trio.abc.Stream):
    """The stream that trio-websocket's reader uses.

    Attributes:
        close: code and reason of the first close frame that the library or we wrote.
        reader_done: whether the reader has sent a close frame and must read no more; `_read` then lingers and closes.
        ended: set when the reader has ended and the wire is closed.
    """

    def __init__(self, wire: WireStream, head: bytes) -> None:
        self.wire = wire
        self.close: tuple[int, str] | None = None
        self.ended = trio.Event()
        self._head: bytes | None = head
        self._opened = trio.Event()
        self._connection: WebSocketConnection | None = None
        self.reader_done = False

    def open(self, connection: WebSocketConnection) -> None:
        """Let the reader receive the bytes after the handshake."""
        self._connection = connection
        self._opened.set()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self.reader_done:
            await trio.lowlevel.checkpoint()
            raise trio.ClosedResourceError
        if self._head is not None:
            await trio.lowlevel.checkpoint()
            head, self._head = self._head, None
            return head
        await self._opened.wait()
        if self._connection is not None and len(self._connection._message_parts) > _MAX_FRAGMENTS:
            self.reader_done = True
            await self.send_close(_TOO_BIG, f"too_big: a message of more than {_MAX_FRAGMENTS} fragments")
            raise trio.ClosedResourceError
        return await self.wire.receive_some(max_bytes)

    async def send_all(self, data: Data) -> None:
        """Write `data`: one whole frame of the library, or its answer to the handshake."""
        if data[0] == _CLOSE:
            self.reader_done = True
            code, reason = struct.unpack_from("!H", data, 2)[0] if len(data) > 2 else _NO_STATUS, bytes(data[4:])
            await self.send_close(code, reason.decode(errors="replace"))
        elif self.close is None:
            await self.wire.send_all(data)
        else:
            await trio.lowlevel.checkpoint()

    async def send_close(self, code: int, reason: str) -> None:
        """Write a close frame, unless one has been written. Raises the same errors as `WireStream.send_parts`."""
        if self.close is not None:
            await trio.lowlevel.checkpoint()
            return
        self.close = code, reason
        body = b"" if code == _NO_STATUS else code.to_bytes(2, "big") + _cut(reason)
        await self.wire.send_parts(_header(_CLOSE, len(body)) + body, final=True)

    async def wait_send_all_might_not_block(self) -> None:
        await self.wire.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Send the close frame that the library owes, if any. The library calls this when its reader ends."""
        self.reader_done = True
        why = self._connection.closed if self._connection is not None else None
        if why is not None and why.code != _ABNORMAL:
            with trio.move_on_after(CLOSE_WAIT), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.send_close(why.code, why.reason or "")


class WebSocketStream(MessageStream):
    """The messages of one accepted WebSocket. `serve_websocket` makes it; it lives as long as the conversation."""

    def __init__(self, connection: WebSocketConnection, link: _Link, limits: Limits) -> None:
        self.peer = link.wire.peer
        self._connection = connection
        self._link = link
        self._wire = link.wire
        self._limits = limits
        self._silent = False
        #: The end of the latest time in which this process was stopped or suspended; the heartbeat notices it by the clock.
        self._heard_nobody_until = -math.inf
        self._awake_at = trio.current_time()

    async def receive(self) -> str | bytes:
        """Return the next message. A message over its limit closes with 1009 and raises PeerGone with that code."""
        try:
            message = await self._connection.get_message()
        except ConnectionClosed:
            raise self._gone() from None
        if isinstance(message, str):
            kind, size, limit = "text", len(message.encode()), self._limits.text_message
        else:
            kind, size, limit = "binary", len(message), self._limits.binary_message
        if size > limit:
            reason = f"too_big: {size} bytes, a {kind} message may have {limit}"
            await self.aclose(_TOO_BIG, reason)
            raise PeerGone(_TOO_BIG, reason)
        return message

    async def send_text(self, text: str) -> None:
        """Send a text message."""
        data = text.encode()
        await self._send(_header(_TEXT, len(data)), data)

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send one binary message."""
        await self._send(_header(_BINARY, len(head) + payload.nbytes) + head, payload)

    async def _send(self, *parts: Data) -> None:
        try:
            await self._wire.send_parts(*parts)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._gone() from None

    def _gone(self) -> PeerGone:
        if self._wire.stalled:
            return PeerTooSlow(_ABNORMAL, f"took no byte for {self._limits.stall:g} s")
        if self._link.close is not None:
            return PeerGone(*self._link.close)
        if self._silent:
            return PeerGone(_ABNORMAL, f"silent for {self._limits.silence:g} s")
        why = self._connection.closed
        if why is not None and why.code != _ABNORMAL:
            return PeerGone(why.code, why.reason or "")
        return PeerGone(_ABNORMAL, self._wire.torn or "the connection was lost")

    async def heartbeat(self) -> None:
        """Task: ping every `ping_interval`. Drop a client that is silent for `silence` seconds, and return."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ping)
            self._notice_standstill()  # the process may have been stopped before this task's first step
            while (lost_at := self._lost_at()) > trio.current_time():  # each received byte moves the time
                await trio.sleep_until(min(lost_at, trio.current_time() + self._limits.ping_interval))
                self._notice_standstill()
            nursery.cancel_scope.cancel()
            self._silent = True
            await self.abort()

    def _lost_at(self) -> float:
        return max(self._wire.last_received, self._heard_nobody_until) + self._limits.silence

    def _notice_standstill(self) -> None:
        """Note a pause of this process. `heartbeat` calls this at least each `ping_interval`, even while a ping is delayed.

        A ping may wait behind a packet that the client takes slowly. That is no pause.
        """
        now = trio.current_time()
        if now - self._awake_at > 1.5 * self._limits.ping_interval:
            self._heard_nobody_until = now
        self._awake_at = now

    async def _ping(self) -> None:
        with suppress(PeerGone):  # `receive` raises it in the conversation
            while True:
                await trio.sleep(self._limits.ping_interval)
                await self._send(_header(_PING, 0))

    async def aclose(self, code: int, reason: str) -> None:
        """Close politely, as `MessageStream.aclose` says."""
        try:
            with trio.move_on_after(CLOSE_WAIT), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                if self._connection.closed is None:
                    await self._link.send_close(code, reason)
                await self._discard_messages()
                await self._link.ended.wait()
        finally:
            await self.abort()

    async def _discard_messages(self) -> None:
        """Discard messages until the reader has reached the client's close frame. No other task may be receiving."""
        with suppress(ConnectionClosed):
            while True:
                await self._connection.get_message()

    async def abort(self) -> None:
        """Drop the connection now. Only a close frame that the reader has sent may still leave, for `CLOSE_WAIT` at most."""
        if self._link.reader_done:
            await trio.lowlevel.checkpoint()  # a close now would reset the connection and destroy the close frame
        else:
            await trio.aclose_forcefully(self._wire)


def _header(opcode: int, length: int) -> bytes:
    """Return the header of an unmasked, unfragmented frame (RFC 6455, section 5.2)."""
    if length < 126:
        return struct.pack("!BB", opcode, length)
    if length < 1 << 16:
        return struct.pack("!BBH", opcode, 126, length)
    return struct.pack("!BBQ", opcode, 127, length)


def _cut(reason: str) -> bytes:
    return reason.encode()[:_MAX_REASON].decode(errors="ignore").encode()
