"""The workarounds around trio-websocket 0.12 (with wsproto 1.3), each with its reason.

Of trio-websocket we use the reader task: it parses the client's frames, collects messages, and answers pings and close
frames. `run_reader` runs it on a `ReaderStream` instead of the wire. `test_trio_websocket_workarounds.py` has a test for
each workaround, which fails when the library changes so that the workaround is not needed any more. Where no issue is named,
we know of none.

Handshake
    *Strict head.* The library parses the request's head a second time, and more strictly than RFC 9110: it allows one
    Connection header, one protocol in Upgrade, and only an IDNA host. So `plain_head` makes a minimal head for it. The path
    and the host in that head mean nothing; the transport has checked the real ones.

    *Lost bytes.* Bytes that the library reads together with the head, or before it has accepted the handshake, reach h11
    instead of the frame parser and are lost. So the stream returns the head alone, and no more bytes until `open`.

Reading
    *Small reads.* By default the library reads 4 KiB at a time, which costs seven times the processor time. So we set
    `RECEIVE_BUFFER`.

    *Frames without a turn.* The library handles all frames of a read before it reads again, and a pong gives the loop no
    turn. So the stream returns `MOST_FRAMES` at a time. Short frames count against a rate; above it the stream reads later.

    *Empty fragments.* The library keeps the fragments of a message until the last one arrives, and limits only their bytes:
    it would keep any number of empty fragments. The stream counts them, by a private attribute, since no public one tells.
    https://github.com/python-trio/trio-websocket/issues/47 asks for messages in parts, which would end the need.

    *Blocked reader.* While a message is not collected, the library's reader waits: it answers no ping and sees no close
    frame. So one task must call `MessageChannel.receive` all the time.
    https://github.com/python-trio/trio-websocket/issues/65 is about it.

Closing
    *Silent failure.* When a client breaks the framing, the library closes the stream without a close frame of 1002 or 1007.
    The stream sends it.

    *Frames after a close frame.* The library does not know of the close frames that we write, and answers pings after them.
    Nothing may follow a close frame (RFC 6455, section 5.5.1), so the stream drops what the library sends later.

    *One more read.* After a message that is too big, the library sends 1009 and then reads once more. The stream refuses.

    *Ping after 1009.* wsproto raises LocalProtocolError in the library's reader when a ping follows the library's own close
    frame. `run_reader` expects it. https://github.com/python-trio/trio-websocket/issues/184

    *Endless close.* The library's `aclose` waits forever for a silent client, and after 1009 the library never closes the
    stream. So we do not call `aclose`, and the library cannot close the wire: `run_reader` does, when the reader has ended.
    The timeouts of https://github.com/python-trio/trio-websocket/issues/64 are in functions that we do not call.

Sending
    *Half a frame.* The library's `send_message` takes only `str` and `bytes` and copies them twice. A cancelled call leaves
    half a frame behind while the connection looks open. So `websocket.py` frames our messages, with `websocket_frames`, and
    writes them to the `WireStream`, whose lock keeps them apart from the library's pongs.
"""

from __future__ import annotations

import logging
import struct
from contextlib import suppress
from typing import Literal

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream
from wsproto.utilities import LocalProtocolError

from reactor_trio.admission import TokenBucket
from reactor_trio.protocol.close_codes import ABNORMAL, CLOSE_WAIT, MAX_FRAGMENTS, NO_STATUS, TOO_BIG
from reactor_trio.transport.response_head import STANDARD_HEADERS
from reactor_trio.transport.upgrade import WEBSOCKET_VERSION, Handshake
from reactor_trio.transport.websocket_frames import CLOSE, LEAST_FRAME, TEXT, close_frame
from reactor_trio.transport.wire_stream import Data, WireStream

log = logging.getLogger("reactor_trio.transport")

#: Bytes that the library reads at a time.
RECEIVE_BUFFER = 64 * 1024
#: Frames that the library gets at a time: of pongs, about 2 ms of work.
MOST_FRAMES = 64
#: Bytes of the mask that each frame of a client has. A frame without one ends the connection.
MASK = 4


def plain_head(handshake: Handshake) -> bytes:
    """Return a minimal request head that opens the same WebSocket (*strict head*)."""
    protocol = "" if handshake.subprotocol is None else f"Sec-WebSocket-Protocol: {handshake.subprotocol}\r\n"
    return (
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: {WEBSOCKET_VERSION}\r\nSec-WebSocket-Key: {handshake.key}\r\n{protocol}\r\n"
    ).encode("ascii")


#: What the next read of a `ReaderStream` does. "head": it returns the head of the handshake. "frames": it waits until the
#: handshake is accepted, and returns the client's bytes. "end": it fails, so that the reader ends; then `run_reader` lingers
#: and closes the wire.
#:
#: | from | event | to |
#: |---|---|---|
#: | head | a read | frames |
#: | any | the library sends a close frame or calls `aclose`, or the client sends too many fragments | end |
Reads = Literal["head", "frames", "end"]


class ReaderStream(trio.abc.Stream):
    """The stream between trio-websocket's reader and the wire.

    Args:
        rate: bytes of short frames a second, each counted as `LEAST_FRAME`. Above it the client is read later.

    Attributes:
        close: code and reason of the first close frame that the library or we wrote, or None.
        reads: what the library's next read does.
        handshake: the handshake to accept.
        connection: the library's connection, or None before the handshake is accepted.
        ended: set when the reader has ended and the wire is closed.
        read_at: until then nothing more is read, because of the short frames so far.
    """

    def __init__(self, wire: WireStream, handshake: Handshake, rate: float) -> None:
        self.wire = wire
        self.close: tuple[int, str] | None = None
        self.reads: Reads = "head"
        self.handshake = handshake
        self.connection: WebSocketConnection | None = None
        self.ended = trio.Event()
        self._accepted = trio.Event()
        self.read_at = trio.current_time()
        self._head = b""  # the begin of a frame's header whose end has not come
        self._rest = 0  # payload of the newest frame that has not come
        self._short = TokenBucket(rate, 1.0, self.read_at)

    def open(self, connection: WebSocketConnection) -> None:
        """Let the library read the bytes after the handshake, which it has accepted."""
        self.connection = connection
        self._accepted.set()

    @property
    def library_close(self) -> tuple[int, str] | None:
        """The close code and reason that the library has received or chosen, or None."""
        why = None if self.connection is None else self.connection.closed
        return None if why is None or why.code == ABNORMAL else (why.code, why.reason or "")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the head, or bytes of the client, as `reads` says: those of `MOST_FRAMES` frames at most."""
        if self.reads == "head":
            await trio.lowlevel.checkpoint()
            self.reads = "frames"
            return plain_head(self.handshake)
        if self.reads == "end":
            await trio.lowlevel.checkpoint()
            raise trio.ClosedResourceError
        await self._accepted.wait()
        if self.connection is not None and len(self.connection._message_parts) > MAX_FRAGMENTS:
            self.reads = "end"
            await self.send_close(TOO_BIG, f"too_big: a message of more than {MAX_FRAGMENTS} fragments")
            raise trio.ClosedResourceError
        if self.read_at > trio.current_time() and self.close is None:
            await trio.sleep_until(self.read_at)
        received = await self.wire.receive_some(max_bytes)
        before, data = len(self._head), self._head + received
        at, frames, lack, self._head = self._rest, 0, 0, b""
        while at < len(data) and frames < MOST_FRAMES:
            short = data[at + 1] & 0x7F if at + 1 < len(data) else 0
            extended = {126: 2, 127: 8}.get(short, 0)
            payload = at + 2 + extended + MASK
            if payload > len(data):
                self._head, at = data[at:], len(data)
                break
            length = int.from_bytes(data[at + 2 : at + 2 + extended], "big") if extended else short
            if data[at] & 0x0F != TEXT & 0x0F:  # texts count as a whole, in `WebSocketStream.receive`
                lack += max(0, LEAST_FRAME - length)
            at, frames = payload + length, frames + 1
        self._rest = max(0, at - len(data))
        if at < len(data):
            self.wire.push_back(data[at:])
            received = data[before:at]
        now = trio.current_time()
        self.read_at = now + self._short.owe(now, lack)
        return received

    async def send_all(self, data: Data) -> None:
        """Write `data`: one whole frame of the library, or its answer to the handshake."""
        if data[0] == CLOSE:
            self.reads = "end"
            code, reason = struct.unpack_from("!H", data, 2)[0] if len(data) > 2 else NO_STATUS, bytes(data[4:])
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
        await self.wire.send_parts(close_frame(code, reason), final=True)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for the wire. The library does not call this."""
        await self.wire.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Send the close frame that the library leaves out. The library calls this when its reader ends."""
        self.reads = "end"
        if (close := self.library_close) is not None:
            with trio.move_on_after(CLOSE_WAIT), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.send_close(*close)


async def run_reader(
    stream: ReaderStream, max_message_size: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Task: run the library's reader from the handshake to its end. Then close the wire so that our last bytes arrive.

    It has started when `stream.connection` is set, or when the client has left before the handshake was accepted.
    """
    try:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(
                nursery, stream, max_message_size=max_message_size, receive_buffer_size=RECEIVE_BUFFER
            )
            headers = [(name.encode(), value.encode()) for name, value in STANDARD_HEADERS.items()]
            connection = await request.accept(subprotocol=stream.handshake.subprotocol, extra_headers=headers)
            stream.open(connection)
            task_status.started()
    except* (LocalProtocolError, ConnectionClosed) as errors:
        log.debug("%s: reader ended: %s", stream.wire.peer, errors.exceptions[0])
    if stream.connection is None:
        task_status.started()
    await stream.wire.linger(CLOSE_WAIT)
    stream.ended.set()
