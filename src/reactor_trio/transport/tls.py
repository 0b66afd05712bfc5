"""TLS under a `WireStream`: `trio.SSLStream` over a socket stream that reports progress.

`trio.SSLStream` reports no progress while it writes. It also closes either without a `close_notify`, or without waiting
until the peer has read the bytes before it. So we put it on a `SocketUnderTls`, which reports each time the socket takes
bytes. `SSLStream` calls its `aclose` after it has written the `close_notify`; there a polite close waits for the peer.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress

import trio


class SocketUnderTls(trio.abc.Stream):
    """The stream under a `trio.SSLStream`: a connected socket that reports progress and can close politely.

    Attributes:
        took_bytes: called each time the socket has taken bytes.
        polite: whether `aclose` first ends our side and waits until the peer has ended its own.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.took_bytes: Callable[[], object] = lambda: None
        self.polite = False
        self._before_reading: Callable[[], object] = lambda: None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data`, and call `took_bytes` for each part that the socket takes."""
        with memoryview(data) as view:
            sent = 0
            try:
                while sent < len(view):
                    sent += await self.stream.socket.send(view[sent:])
                    self.took_bytes()
            except OSError as error:
                raise trio.BrokenResourceError(f"the connection broke: {error}") from error

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Read from the socket."""
        self._before_reading()
        return await self.stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket may take bytes."""
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the socket; if `polite`, only after the peer has read all that was written."""
        try:
            if self.polite:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.stream.send_eof()
                    while await self.stream.receive_some():
                        pass
        finally:
            await trio.aclose_forcefully(self.stream)

    async def close_politely(self, tls: TlsStream) -> None:
        """Close `tls`, the TLS stream over this one, with a `close_notify` that the peer can still read.

        OpenSSL sends no `close_notify` while it holds input that was not read. So this method first reads that input; input
        that OpenSSL does not hold yet stays with the socket.
        """
        with trio.CancelScope() as until_empty:
            self._before_reading = until_empty.cancel
            while await tls.receive_some():
                pass
        self.polite = True
        await tls.aclose()


TlsStream = trio.SSLStream[SocketUnderTls]


def secured(stream: trio.SocketStream, context: ssl.SSLContext) -> TlsStream:
    """Return the server's end of TLS on a connection. The TLS handshake is part of the first read or write."""
    return trio.SSLStream(SocketUnderTls(stream), context, server_side=True)
