"""`WireStream`: the byte stream under HTTP and WebSocket, with one writer at a time and no half-written messages.

A frame on the wire is several writes: the frame's header, the packet's head, the payload in as many pieces as the
socket takes. Three tasks write: the session's sender, the WebSocket reader (pongs and close replies) and the heartbeat.
Hence the rules that live here and nowhere else:

* All writes pass one lock, and a frame is written under one hold of it.
* A write that has begun and does not end - cancelled, failed, stalled - leaves the peer waiting for the rest of a
  frame. Nothing may follow, so the stream is torn: closed at once, and each later write raises
  `trio.BrokenResourceError`.
* `send_now` is for a caller that writes to many streams and may wait for none. It writes what the socket takes. The rest of
  the frame stays here and goes before anything else that is written: the next `send_parts` writes it first.
* Slow is not stalled. The deadline of a write is renewed whenever the peer takes a byte, so a large picture may take
  minutes on a thin link, while a client that takes nothing for `stall` seconds is dropped. (A WebSocket client must also
  send something meanwhile: see `Limits.silence`.)

For a socket, "takes a byte" is exact, because we call `writev` ourselves. `writev` also accepts header and payload as two
buffers, so a picture of 2.7 MB is not copied. Bytes that the socket takes at once are written without a turn of the loop,
which would cost as much as the write. Any other stream gets pieces of 64 KiB. Under TLS they join small parts, since each
piece is a record and a packet. Each written piece is progress; under TLS the socket reports it, too (`tls.py`).

`send_buffer` keeps the system's send buffer below the several megabytes that it would grow to. With a small buffer, large
pictures pass through the same memory again and again and find it in the processor's cache, which saves a quarter of the time
that sending one takes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.transport.message_channel import SentNow
from reactor_trio.transport.send_buffer import SendBuffer
from reactor_trio.transport.tls import SocketUnderTls

_PIECE = 64 * 1024

Data = bytes | bytearray | memoryview


class StreamStalled(trio.BrokenResourceError):
    """Raised when the peer took no byte of a write for the stall limit. The stream is torn."""


class WireStream(trio.abc.Stream):
    """Wraps `stream`: whole writes, a stall limit, and counts of the traffic. Needs a running Trio loop.

    Args:
        stream: the stream to wrap. This object owns it from now on.
        stall: seconds without progress after which a write fails.

    Attributes:
        peer: the other end's address, or "memory".
        last_received: `trio.current_time()` of the newest byte received; at first, of the construction.
        torn: the reason why nothing more can be written, or None.
        stalled: whether that reason is a peer that took no byte.
    """

    def __init__(self, stream: trio.abc.Stream, *, stall: float = 15) -> None:
        self._stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        under = stream.transport_stream if isinstance(stream, trio.SSLStream) else None
        self._under_tls = under if isinstance(under, SocketUnderTls) else None
        if self._under_tls is not None:
            self._under_tls.took_bytes = self._renew_deadline
        tcp = self._socket if self._under_tls is None else self._under_tls.stream.socket
        internet = tcp is not None and tcp.family in (socket.AF_INET, socket.AF_INET6)
        self._fit_buffer: Callable[[], object] = SendBuffer(tcp).fit if tcp is not None and internet else lambda: None
        self._stall = stall
        self._patience = trio.CancelScope()  # of the write that runs
        self._pushed_back = b""
        self._rest: list[memoryview] = []  # of a write that `send_now` has begun
        self._lock = trio.StrictFIFOLock()
        self._closed = False
        self.peer = peer_of(stream)
        self.last_received = trio.current_time()
        self.torn: str | None = None
        self.stalled = False

    def push_back(self, data: bytes) -> None:
        """Make `receive_some` return `data` before any other bytes."""
        self._pushed_back = data + self._pushed_back

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return pushed-back bytes, or read from the stream, as `trio.abc.ReceiveStream.receive_some` does."""
        if self._pushed_back:
            await trio.lowlevel.checkpoint()
            data = self._pushed_back[:max_bytes]
            self._pushed_back = self._pushed_back[len(data) :]
            return data
        received = bytes(await self._stream.receive_some(max_bytes))
        if received:
            self.last_received = trio.current_time()
        return received

    async def send_all(self, data: Data) -> None:
        """Write `data`; see `send_parts`."""
        await self.send_parts(data)

    async def send_parts(self, *parts: Data, final: bool = False) -> None:
        """Write what `send_now` has left, then `parts` one after another. No other task's bytes get between them.

        After a `final` write no other write may follow. Raises StreamStalled, another trio.BrokenResourceError if the stream
        is torn, or trio.ClosedResourceError if it was closed on this side. If this call is cancelled while it waits for the
        lock, it has written nothing. If it is cancelled later, it tears the stream.
        """
        views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        await self._acquire_lock()
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            if self.torn is not None:
                raise trio.BrokenResourceError(self.torn)
            if self._closed:
                raise trio.ClosedResourceError
            try:
                if self._rest:
                    views, self._rest = self._rest + views, []
                if self._socket is None or not self._write_at_once(views):
                    with patient(trio.move_on_after(self._stall)) as self._patience:
                        await self._write(views)
                    if self._patience.cancelled_caught:
                        self.stalled = True
                        raise StreamStalled(f"the peer took no byte for {self._stall:g} s")
            except OSError as error:
                await self._tear(f"the connection broke: {error}")
                raise trio.BrokenResourceError(self.torn) from error
            except BaseException as error:
                cancelled = isinstance(error, trio.Cancelled)
                await self._tear("a write was cancelled half-way" if cancelled else str(error) or "the connection broke")
                raise
            if final:
                self.torn = "the last message has been sent"
        finally:
            self._lock.release()

    def send_now(self, *parts: Data) -> SentNow:
        """Write what the socket takes of `parts` now, and keep the rest for the next `send_parts`.

        Refused while another write runs or has a rest, on a stream that is closed or torn, and on one that is not a socket.
        An error of the socket is a refusal, too: the next `send_parts` meets and raises it.
        """
        if self._socket is None or self._rest or self._closed or self.torn is not None or self._lock.locked():
            return "refused"
        try:
            sent = os.writev(self._socket.fileno(), parts)
        except OSError:
            return "refused"
        for part in parts:
            if sent >= memoryview(part).nbytes:
                sent -= memoryview(part).nbytes
            else:
                self._rest.append(memoryview(part).cast("B")[sent:])
                sent = 0
        return "begun" if self._rest else "sent"

    async def _acquire_lock(self) -> None:
        """Take the lock, without a turn of the loop if it is free."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    def _renew_deadline(self) -> None:
        self._patience.deadline = trio.current_time() + self._stall

    async def _write(self, views: list[memoryview]) -> None:
        if self._socket is None:
            for piece in _joined(views) if self._under_tls is not None else _pieces(views):
                await self._stream.send_all(piece)
                self._fit_buffer()
                self._renew_deadline()
        else:
            while not self._write_at_once(views):
                self._fit_buffer()
                await trio.lowlevel.wait_writable(self._socket)
                self._renew_deadline()

    def _write_at_once(self, views: list[memoryview]) -> bool:
        """Write the bytes that the socket takes now, and remove them from `views`. Return whether none is left."""
        assert self._socket is not None
        while views:
            try:
                sent = os.writev(self._socket.fileno(), views)
            except BlockingIOError:
                return False
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if sent:
                views[0] = views[0][sent:]
        return True

    async def _tear(self, reason: str) -> None:
        self.torn = reason
        await trio.aclose_forcefully(self)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream below may take bytes."""
        await self._stream.wait_send_all_might_not_block()

    async def linger(self, seconds: float, *, until_answered: bool = False) -> None:
        """Close in a way that lets the peer read all that was sent to it.

        The system resets a socket that is closed with unread input, and a reset destroys our last bytes on their way. So
        this method ends our side, discards input until the peer ends its side, for at most `seconds`, and then closes. When
        cancelled it closes at once. `until_answered` ends our side only after the peer has sent something.
        """
        try:
            with trio.move_on_after(seconds), suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                if until_answered:
                    await self.receive_some()
                await self._end_side()
                while await self.receive_some():
                    pass
        finally:
            await self.abandon()

    async def _end_side(self) -> None:
        await self._acquire_lock()
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_WR)
            elif self._under_tls is not None and isinstance(self._stream, trio.SSLStream):
                self._closed = True
                await self._under_tls.close_politely(self._stream)
            elif isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
        finally:
            self._lock.release()

    async def aclose(self) -> None:
        """Close the stream. Writes that wait for the lock raise trio.ClosedResourceError."""
        self._closed = True
        await self._stream.aclose()

    async def abandon(self) -> None:
        """Close at once, as `trio.aclose_forcefully` does. For a socket this costs a fraction of it."""
        if self._socket is None:
            await trio.aclose_forcefully(self)
        else:
            self._closed = True
            self._socket.close()


def _pieces(views: list[memoryview]) -> Iterator[Data]:
    return (view[start : start + _PIECE] for view in views for start in range(0, len(view), _PIECE))


def _joined(views: list[memoryview]) -> Iterator[Data]:
    """Cut the bytes of all `views`, joined, into pieces of `_PIECE` bytes. Only a piece that joins views is a copy."""
    parts: list[memoryview] = []
    room = _PIECE
    for whole in views:
        view = whole
        while view:
            parts.append(view[:room])
            view, room = view[room:], room - len(parts[-1])
            if not room:
                yield parts[0] if len(parts) == 1 else b"".join(parts)
                parts, room = [], _PIECE
    if parts:
        yield parts[0] if len(parts) == 1 else b"".join(parts)


def peer_of(stream: trio.abc.Stream) -> str:
    """Return the other end's address and port; "memory", "unix" or "gone" if it has none."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    transport = transport.stream if isinstance(transport, SocketUnderTls) else transport
    if not isinstance(transport, trio.SocketStream):
        return "memory"
    try:
        name = transport.socket.getpeername()
    except OSError:
        return "gone"  # the peer has left since it connected; the first read will report that
    if not isinstance(name, tuple):
        return str(name) or "unix"
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
