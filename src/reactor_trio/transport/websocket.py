"""WebSocket messages over a `WireStream`: trio-websocket reads, we write.

`trio_websocket_workarounds.py` has the reader, and says why we use the library in this way.

Each text costs the loop time, also one that is refused. So texts count against a rate before anything looks into
them. (Other short frames do in the reader.) A client that sends more is not read for a while: `receive` waits, then the
library's reader waits, and then the client's own sending does. Nothing is lost, and pings and the close wait with the texts.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

from reactor_trio.admission import TokenBucket
from reactor_trio.concurrency.lost_time import patient, resumed_at
from reactor_trio.protocol.close_codes import ABNORMAL, CLOSE_WAIT, INTERNAL_ERROR, NORMAL, TOO_BIG
from reactor_trio.transport.message_channel import MessageChannel, PeerGone, PeerTooSlow, SentNow
from reactor_trio.transport.request import Conversation, Limits
from reactor_trio.transport.trio_websocket_workarounds import ReaderStream, run_reader
from reactor_trio.transport.upgrade import Handshake
from reactor_trio.transport.websocket_frames import BINARY, LEAST_FRAME, PING, TEXT, frame_header
from reactor_trio.transport.wire_stream import Data, WireStream

log = logging.getLogger("reactor_trio.transport")


async def serve_websocket(wire: WireStream, handshake: Handshake, serve_client: Conversation, limits: Limits) -> None:
    """Accept `handshake` on `wire` within `limits.handshake`, run `serve_client`, and close.

    When this returns, the connection is closed. PeerGone from `serve_client`, alone or in a group, is a normal end. Any
    other exception closes the WebSocket with 1011 and is raised in a group. If the client leaves before the handshake is
    complete, `serve_client` is not called.
    """
    stream = ReaderStream(wire, handshake, limits.text_per_second)
    try:
        async with trio.open_nursery() as nursery:
            with patient(trio.move_on_after(limits.handshake)):
                await nursery.start(run_reader, stream, max(limits.text_message, limits.binary_message))
            if stream.connection is not None:
                messages = WebSocketStream(stream.connection, stream, limits)
                nursery.start_soon(messages.heartbeat)
                try:
                    await _until_gone(serve_client, messages)
                except Exception:
                    await messages.aclose(INTERNAL_ERROR, "internal error")
                    raise
                await messages.aclose(NORMAL, "")
            nursery.cancel_scope.cancel()
    finally:
        stream.connection = None  # which has the stream: they would keep each other


async def _until_gone(serve_client: Conversation, messages: MessageChannel) -> None:
    try:
        await serve_client(messages)
    except* PeerGone as gone:
        log.debug("%s: conversation ended: %s", messages.peer, gone.exceptions[0])


class WebSocketStream(MessageChannel):
    """The messages of one accepted WebSocket. `serve_websocket` makes it; it lives as long as the conversation."""

    def __init__(self, connection: WebSocketConnection, stream: ReaderStream, limits: Limits) -> None:
        self.peer = stream.wire.peer
        self._connection = connection
        self._stream = stream
        self._wire = stream.wire
        self._limits = limits
        now = trio.current_time()
        self._texts = TokenBucket(limits.text_per_second, 1.0, now)
        self._read_at = now  # until then nothing more is read, because of the texts so far
        self._held_back = False
        self._silence = ""  # the reason of `PeerGone` if the heartbeat has dropped the client

    async def receive(self) -> str | bytes:
        """Return the next message, as soon as the texts before it are within their rate.

        A message over its limit closes with 1009 and raises PeerGone with that code.
        """
        if self._read_at > trio.current_time():
            self._say_held_back()
            await trio.sleep_until(self._read_at)
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
            await self.aclose(TOO_BIG, reason)
            raise PeerGone(TOO_BIG, reason)
        if kind == "text":
            now = trio.current_time()
            self._read_at = now + self._texts.owe(now, max(size, LEAST_FRAME))
        return message

    def _say_held_back(self) -> None:
        if not self._held_back:
            self._held_back = True
            log.warning(
                "%s sends more text than runtime.limits.text_per_second allows (%d bytes) and is read more slowly; this is "
                "logged once for a connection", self.peer, self._limits.text_per_second,
            )  # fmt: skip

    async def send_text(self, text: str) -> None:
        """Send a text message."""
        data = text.encode()
        await self._send(frame_header(TEXT, len(data)), data)

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send one binary message."""
        await self._send(frame_header(BINARY, len(head) + payload.nbytes) + head, payload)

    def send_packet_now(self, head: bytes, payload: memoryview) -> SentNow:
        """Write one binary message without waiting, as `MessageChannel.send_packet_now` says."""
        return self._wire.send_now(frame_header(BINARY, len(head) + payload.nbytes) + head, payload)

    async def finish(self) -> None:
        """Write the rest of the message that `send_packet_now` has begun."""
        await self._send()

    async def _send(self, *parts: Data) -> None:
        try:
            await self._wire.send_parts(*parts)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._gone() from None

    def _gone(self) -> PeerGone:
        if self._wire.stalled:
            return PeerTooSlow(ABNORMAL, f"took no byte for {self._limits.stall:g} s")
        if (close := self._stream.close or self._stream.library_close) is not None:
            return PeerGone(*close)
        return PeerGone(ABNORMAL, self._silence or self._wire.torn or "the connection was lost")

    async def heartbeat(self) -> None:
        """Task: ping every `ping_interval`. Drop a client that is silent for `silence` seconds, and return.

        The time in which nothing is read because of a rate does not count as silence.
        A client whose silence began before the loop lost time may be silent for as long again.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ping)
            while True:
                lost_at, now = self._lost_at(), trio.current_time()
                if lost_at <= now and await self._still_silent():
                    break
                await trio.sleep_until(min(lost_at, now + self._limits.ping_interval))
            nursery.cancel_scope.cancel()
            self._silence = f"silent for {self._limits.silence:g} s"
            await self.abort()

    def _lost_at(self) -> float:
        return max(self._wire.last_received, self._read_at, self._stream.read_at, resumed_at()) + self._limits.silence

    async def _still_silent(self) -> bool:
        """Whether the client is lost in the loop's next turn, too. A pause in this turn is noticed before that one."""
        await trio.lowlevel.checkpoint()
        return self._lost_at() <= trio.current_time()

    async def _ping(self) -> None:
        with suppress(PeerGone):  # `receive` raises it in the conversation
            while True:
                await trio.sleep(self._limits.ping_interval)
                await self._send(frame_header(PING, 0))

    async def aclose(self, code: int, reason: str) -> None:
        """Close politely, as `MessageChannel.aclose` says."""
        try:
            with trio.move_on_after(CLOSE_WAIT), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                if self._connection.closed is None:
                    await self._stream.send_close(code, reason)
                with suppress(ConnectionClosed):
                    while True:  # discard messages until the reader has reached the client's close frame
                        await self._connection.get_message()
                await self._stream.ended.wait()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Drop the connection now. Only a close frame that the reader has sent may still leave, for `CLOSE_WAIT` at most."""
        if self._stream.reads == "end":
            await trio.lowlevel.checkpoint()  # a close now would reset the connection and destroy the close frame
        else:
            await trio.aclose_forcefully(self._wire)
