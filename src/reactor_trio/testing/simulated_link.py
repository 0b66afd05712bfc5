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
from reactor_trio.testing.memory_connection import ClientEnd, ServerEnd, Stall
from reactor_trio.transport import PeerGone, PeerTooSlow

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
        self._stalled = self._served = False
        self._patience = math.inf
        #: says whether the client reads; while it does not, the direction to it is held, as by a socket with little room
        self._reader = Stall(self._flow)
        #: close code and reason, as each end knows it; a broken link is known to both at once
        self._server_end: tuple[int, str] | None = None
        self._client_end: tuple[int, str] | None = None

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

    def _open(self, patience: float, peer: str) -> tuple[ServerEnd, ClientEnd]:
        """Open both ends; the server closes a client that takes nothing for `patience` seconds."""
        if self._served:
            raise TypeError("this Link has served a client: make one for each")
        self._served, self._patience = True, patience
        return LinkMessages(self, peer), LinkTransport(self)

    def _put(self, pipe: Pipe, item: Item) -> None:
        size = 2 + len(item.reason) if isinstance(item, Close) else len(item.encode() if isinstance(item, str) else item)
        pipe.put(item, size, trio.current_time())
        self._changed.set()

    def _cut(self) -> None:
        """Break the link and lose the messages under way. Does nothing after a close."""
        if self._server_end is None and self._client_end is None:
            self._server_end = self._client_end = (1006, "")
        self._changed.set()


class LinkMessages(ServerEnd):
    """The server's end of a `Link`."""

    _link: Link

    async def receive(self) -> str | bytes:
        """The client's next message, when it arrives."""
        await trio.lowlevel.checkpoint()
        link = self._link
        while link._server_end is None:
            item = link._up.take(trio.current_time())
            if isinstance(item, Close):
                link._server_end = (item.code, item.reason)
            elif item is not None:
                return item
            else:
                await link._changed.wait(link._up.arrives_at())
        raise PeerGone(*link._server_end)

    async def aclose(self, code: int, reason: str) -> None:
        """Send the close behind earlier messages; it takes effect when it arrives."""
        if self._link._server_end is None:
            self._link._server_end = (code, reason)
            self._link._put(self._link._down, Close(code, reason))
        await trio.lowlevel.checkpoint()

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        link = self._link
        if link._server_end is not None:
            raise PeerGone(*link._server_end)
        link._put(link._down, message)
        if link._down.enters_at() == -math.inf:
            return
        try:
            await self._wait_entered()
        except trio.Cancelled:
            link._cut()  # nothing may follow half a message
            raise
        # All that is due at this instant goes first: whether a frame shown now is the newest must not hang on task order.
        await trio.testing.wait_all_tasks_blocked()

    async def _wait_entered(self) -> None:
        link, pipe, began = self._link, self._link._down, trio.current_time()
        while (enters := pipe.enters_at()) > (now := trio.current_time()):
            given_up = math.inf if pipe.held_since is None else max(began, pipe.held_since) + link._patience
            if now >= given_up:
                link._cut()
                raise PeerTooSlow(1006, "too slow")
            await link._changed.wait(min(enters, given_up))
            if link._server_end is not None:
                raise PeerGone(*link._server_end)
            pipe.advance(trio.current_time())


class LinkTransport(ClientEnd):
    """The client's end of a `Link`."""

    _link: Link

    async def receive(self) -> str | bytes:
        """The server's next message, when it has arrived and the client reads."""
        await trio.lowlevel.checkpoint()
        link = self._link
        while link._client_end is None:
            if link._reader.stalled:
                await link._changed.wait()
                continue
            item = link._down.take(trio.current_time())
            if isinstance(item, Close):
                link._client_end = (item.code, item.reason)
            elif item is not None:
                return item
            else:
                await link._changed.wait(link._down.arrives_at())
        raise TransportClosed(*link._client_end)

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """The close takes effect when it arrives."""
        if code == 1006:
            self._link._cut()
        elif self._link._client_end is None:
            self._link._client_end = (code, reason)
            self._link._put(self._link._up, Close(code, reason))

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._link._client_end is not None:
            raise TransportClosed(*self._link._client_end)
        self._link._put(self._link._up, message)


def _check(bits_per_second: float | None, delay: float) -> None:
    if bits_per_second is not None and not 0 < bits_per_second < math.inf:
        raise ValueError(f"bits_per_second must be above 0, or None for any, got {bits_per_second}; for none use stall()")
    if not 0 <= delay < math.inf:
        raise ValueError(f"delay must be seconds from 0 on, got {delay}")
