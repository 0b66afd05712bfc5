"""A connection in memory over a link with a rate, a delay and a buffer, in exact virtual time.

Each direction is a `Pipe`, which is arithmetic: messages pass one after another at the rate, and arrive a delay later. No
task and no thread runs in between: a sender or receiver waits until the time that the pipe computes, or until the link
changes. The rate applies to the server's messages; the client's messages are only delayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio
import trio.testing

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.testing.link_direction import Close, Item, Pipe
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.transport import MessageStream, PeerGone, PeerTooSlow

#: bytes that a socket configured for low delay holds
BUFFER = 16 * 1024


class Link:
    """The link between a test's client and the server: `server.connect(link=Link(bits_per_second=1_000_000, delay=0.02))`.

    A message arrives when all its bytes have passed at `bits_per_second`, one message after another, and `delay` is over.
    The server's send waits while more than `buffer` bytes have still to pass; with a longer message it waits until the last
    byte is in the buffer. The client's messages have the delay and no rate. Only the bytes of the messages count.

    Args:
        bits_per_second: rate of the server's messages; None: no limit.
        delay: seconds, in each direction.
        buffer: bytes on the server's side of the bottleneck.
        jitter: further seconds of delay of message n (from 0, each direction counts its own); messages stay in order.

    A link serves one client, which has it as `link`.
    """

    def __init__(
        self,
        bits_per_second: float | None = None,
        delay: float = 0.0,
        buffer: int = BUFFER,
        jitter: Callable[[int], float] | None = None,
    ) -> None:
        _check(bits_per_second, delay)
        self._down = Pipe(bits_per_second, delay, buffer, jitter)
        self._up = Pipe(None, delay, buffer, jitter)
        self._changed = RepeatedEvent()
        self._stalled = False
        self._reading: _Reading | None = None

    def set(self, *, bits_per_second: float | None = math.nan, delay: float | None = None) -> None:
        """Change the rate (None: no limit) or the delay from now on. Messages that have passed keep their arrival."""
        rated = bits_per_second is None or not math.isnan(bits_per_second)
        _check(bits_per_second if rated else None, delay or 0.0)
        if rated:
            self._down.set_rate(bits_per_second, trio.current_time())
        if delay is not None:
            for pipe in (self._down, self._up):
                pipe.advance(trio.current_time())
                pipe.delay = delay
        self._changed.set()

    def stall(self) -> None:
        """Let nothing pass in either direction from now on; neither end notices."""
        self._stalled = True
        self._flow()

    def resume(self) -> None:
        """End `hold`: messages pass again."""
        self._stalled = False
        self._flow()

    def _flow(self) -> None:
        now = trio.current_time()
        for pipe, held in ((self._up, self._stalled), (self._down, self._stalled or self._reader.stalled)):
            (pipe.hold if held else pipe.release)(now)
        self._changed.set()

    @property
    def _reader(self) -> Stall:
        assert self._reading is not None, "this link serves no client yet: give it to server.connect"
        return self._reading

    def _open(self, patience: float, peer: str) -> tuple[LinkMessages, LinkTransport, Stall]:
        """Open both ends, and the switch with which the client stalls."""
        if self._reading is not None:
            raise TypeError("this Link has served a client: make one for each")
        self._reading = _Reading(self._flow)
        wire = _Wire(self, self._down, self._up, self._reading, patience)
        return LinkMessages(wire, peer), LinkTransport(wire), self._reading


class _Reading(Stall):
    """Holds the direction to the client while the client does not read, as a socket with little room does."""

    def __init__(self, flow: Callable[[], None]) -> None:
        super().__init__()
        self._flow = flow

    def stall(self) -> None:
        super().stall()
        self._flow()

    def resume(self) -> None:
        super().resume()
        self._flow()


class _Wire:
    """The state that both ends of one connection share."""

    def __init__(self, link: Link, down: Pipe, up: Pipe, reading: Stall, patience: float) -> None:
        self.down = down
        self.up = up
        self.reading = reading
        self.patience = patience
        self.changed = link._changed
        #: close code and reason, as each end knows it; a broken link is known to both at once
        self.server_end: tuple[int, str] | None = None
        self.client_end: tuple[int, str] | None = None

    def put(self, pipe: Pipe, item: Item) -> None:
        size = 2 + len(item.reason) if isinstance(item, Close) else len(item.encode() if isinstance(item, str) else item)
        pipe.put(item, size, trio.current_time())
        self.changed.set()

    def cut(self) -> None:
        """Break the link and lose the messages under way. Does nothing after a close."""
        if self.server_end is None and self.client_end is None:
            self.server_end = self.client_end = (1006, "")
        self.changed.set()


class LinkMessages(MessageStream):
    """The server's end."""

    def __init__(self, wire: _Wire, peer: str) -> None:
        self._wire = wire
        self.peer = peer

    async def receive(self) -> str | bytes:
        """The client's next message, when it arrives."""
        await trio.lowlevel.checkpoint()
        wire = self._wire
        while wire.server_end is None:
            item = wire.up.take(trio.current_time())
            if isinstance(item, Close):
                wire.server_end = (item.code, item.reason)
            elif item is not None:
                return item
            else:
                await wire.changed.wait(wire.up.arrives_at())
        raise PeerGone(*wire.server_end)

    async def send_text(self, text: str) -> None:
        """To the client."""
        await self._send(text)

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send a copy to the client, since messages under way must not change."""
        await self._send(b"".join((head, payload)))

    async def aclose(self, code: int, reason: str) -> None:
        """Send the close behind earlier messages; it takes effect when it arrives."""
        if self._wire.server_end is None:
            self._wire.server_end = (code, reason)
            self._wire.put(self._wire.down, Close(code, reason))
        await trio.lowlevel.checkpoint()

    async def abort(self) -> None:
        """Break the link."""
        self._wire.cut()

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        wire = self._wire
        if wire.server_end is not None:
            raise PeerGone(*wire.server_end)
        wire.put(wire.down, message)
        if wire.down.enters_at() == -math.inf:
            return
        try:
            await self._wait_entered()
        except trio.Cancelled:
            wire.cut()  # nothing may follow half a message
            raise
        # All that is due at this instant goes first: whether a frame shown now is the newest must not hang on task order.
        await trio.testing.wait_all_tasks_blocked()

    async def _wait_entered(self) -> None:
        wire, pipe, began = self._wire, self._wire.down, trio.current_time()
        while (enters := pipe.enters_at()) > (now := trio.current_time()):
            given_up = math.inf if pipe.held_since is None else max(began, pipe.held_since) + wire.patience
            if now >= given_up:
                wire.cut()
                raise PeerTooSlow(1006, "too slow")
            await wire.changed.wait(min(enters, given_up))
            if wire.server_end is not None:
                raise PeerGone(*wire.server_end)
            pipe.advance(trio.current_time())


class LinkTransport:
    """The client's end; a `reactor_trio.client.Transport`."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def receive(self) -> str | bytes:
        """The server's next message, when it has arrived and the client reads."""
        await trio.lowlevel.checkpoint()
        wire = self._wire
        while wire.client_end is None:
            if wire.reading.stalled:
                await wire.changed.wait()
                continue
            item = wire.down.take(trio.current_time())
            if isinstance(item, Close):
                wire.client_end = (item.code, item.reason)
            elif item is not None:
                return item
            else:
                await wire.changed.wait(wire.down.arrives_at())
        raise TransportClosed(*wire.client_end)

    async def send(self, text: str) -> None:
        """To the server; never waits."""
        await self._send(text)

    async def send_bytes(self, data: bytes) -> None:
        """To the server."""
        await self._send(data)

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Leave politely; the close takes effect when it arrives."""
        if self._wire.client_end is None:
            self._wire.client_end = (code, reason)
            self._wire.put(self._wire.up, Close(code, reason))

    def vanish(self) -> None:
        """Break the link without a close message."""
        self._wire.cut()

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._wire.client_end is not None:
            raise TransportClosed(*self._wire.client_end)
        self._wire.put(self._wire.up, message)


def _check(bits_per_second: float | None, delay: float) -> None:
    if bits_per_second is not None and not 0 < bits_per_second < math.inf:
        raise ValueError(f"bits_per_second must be above 0, or None for any, got {bits_per_second}; for none use stall()")
    if not 0 <= delay < math.inf:
        raise ValueError(f"delay must be seconds from 0 on, got {delay}")
