"""A connection in memory that carries whole messages, with a client that can stall or vanish."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import trio
import trio.abc

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.transport import MessageChannel, PeerGone, PeerTooSlow

#: Messages under way to a client that does not read, as a socket's buffers would hold some.
CAPACITY = 1


class Stall:
    """Whether the client reads. `stall` and `resume` are plain calls; each then calls `changed`."""

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        self._changed = changed
        self._reading = trio.Event()
        self._reading.set()

    @property
    def stalled(self) -> bool:
        """Whether it reads nothing now."""
        return not self._reading.is_set()

    def stall(self) -> None:
        """Read no more."""
        if not self.stalled:
            self._reading = trio.Event()
        self._changed()

    def resume(self) -> None:
        """Read again."""
        self._reading.set()
        self._changed()

    async def wait_reading(self) -> None:
        """Return when the client reads."""
        while self.stalled:
            await self._reading.wait()


class ServerEnd(MessageChannel):
    """The server's end of a connection in memory, over a link of any kind."""

    def __init__(self, link: Any, peer: str) -> None:
        self._link = link
        self.peer = peer

    async def send_text(self, text: str) -> None:
        """To the client."""
        await self._send(text)

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send a copy to the client: frames that a test keeps, and messages under way, must not change."""
        await self._send(b"".join((head, payload)))

    async def abort(self) -> None:
        """Break the link."""
        self._link._cut()

    @abstractmethod
    async def _send(self, message: str | bytes) -> None: ...


class ClientEnd(ABC):
    """The client's end, a `reactor_trio.client.Transport`."""

    def __init__(self, link: Any) -> None:
        self._link = link

    @abstractmethod
    async def receive(self) -> str | bytes:
        """The server's next message, once it has arrived and the client reads."""

    async def send(self, text: str) -> None:
        """Send to the server; never waits."""
        await self._send(text)

    async def send_bytes(self, data: bytes) -> None:
        """To the server."""
        await self._send(data)

    @abstractmethod
    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Leave politely; with `1006` break the link without a close message."""

    @abstractmethod
    async def _send(self, message: str | bytes) -> None: ...


class MemoryLink:
    """Both directions between one client and the server.

    Args:
        stall: says whether the client reads.
        patience: seconds without progress after which the server closes a client that is too slow.
    """

    def __init__(self, stall: Stall, patience: float) -> None:
        self.stall = stall
        self.patience = patience
        self.to_client: list[str | bytes] = []
        #: close code and reason, once either side has closed or the link is broken
        self.closed: tuple[int, str] | None = None
        self.to_server, self.from_client = trio.open_memory_channel[str | bytes](math.inf)
        #: a message to the client has come or gone, or the link is closed. Tests look at `to_client`, so it is no channel.
        self.changed = RepeatedEvent()

    def close(self, code: int, reason: str) -> None:
        """Take no more messages; the first close counts. A broken link (1006) loses the messages under way."""
        if self.closed is None:
            self.closed = (code, reason)
            self.to_server.close()
            if code == 1006:
                self.to_client.clear()
        self.changed.set()

    def _cut(self) -> None:
        """Break the link."""
        self.close(1006, "")


class MemoryMessages(ServerEnd):
    """The server's end of a `MemoryLink`."""

    _link: MemoryLink

    async def receive(self) -> str | bytes:
        """The client's next message."""
        await trio.lowlevel.checkpoint()
        try:
            return await self._link.from_client.receive()
        except trio.EndOfChannel:
            assert self._link.closed is not None
            raise PeerGone(*self._link.closed) from None

    async def aclose(self, code: int, reason: str) -> None:
        """Close; earlier messages arrive first."""
        self._link.close(code, reason)
        await trio.lowlevel.checkpoint()

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        link = self._link
        deadline = trio.current_time() + link.patience
        while len(link.to_client) >= CAPACITY and link.closed is None:
            before = len(link.to_client)
            await link.changed.wait(deadline)
            if len(link.to_client) >= before and trio.current_time() >= deadline:
                link._cut()
                raise PeerTooSlow(1006, "too slow")
        if link.closed is not None:
            raise PeerGone(*link.closed)
        link.to_client.append(message)
        link.changed.set()


class MemoryTransport(ClientEnd):
    """The client's end of a `MemoryLink`."""

    _link: MemoryLink

    async def receive(self) -> str | bytes:
        """The server's next message."""
        await trio.lowlevel.checkpoint()
        link = self._link
        while link.stall.stalled or not link.to_client:
            if link.closed is not None and not link.to_client:
                raise TransportClosed(*link.closed)
            if link.stall.stalled:
                await link.stall.wait_reading()
            else:
                await link.changed.wait()
        message = link.to_client.pop(0)
        link.changed.set()
        return message

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Earlier messages arrive first."""
        self._link.close(code, reason)

    async def _send(self, message: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._link.closed is not None:
            raise TransportClosed(*self._link.closed)
        self._link.to_server.send_nowait(message)


def open_ends(stall: Stall, patience: float, peer: str) -> tuple[ServerEnd, ClientEnd]:
    """Make a `MemoryLink` and both its ends."""
    link = MemoryLink(stall, patience)
    return MemoryMessages(link, peer), MemoryTransport(link)


class StallableStream(anyio.abc.ByteStream):
    """A Trio stream as the anyio stream of a client that can stop reading."""

    def __init__(self, stream: trio.abc.Stream, stall: Stall) -> None:
        self._stream = stream
        self._stall = stall

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """The next bytes, once the client reads."""
        await self._stall.wait_reading()
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise anyio.BrokenResourceError from None
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Send bytes."""
        try:
            await self._stream.send_all(item)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise anyio.BrokenResourceError from None

    async def send_eof(self) -> None:
        """Half-close, where the stream can."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close."""
        await self._stream.aclose()
