"""TLS under a `WireStream`: trio's own, over a socket that tells each byte that the peer takes.

`trio.SSLStream` gives no sign of progress while it writes, and closes either without a `close_notify` or without waiting
until the peer has read what came before. So it stands on a stream of ours, which says when the socket takes bytes, and
whose `aclose`, called after the `close_notify` has been written, is where a polite close waits.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress

import trio


class SocketUnderTls(trio.abc.Stream):
    """A connected socket's stream, as `trio.SSLStream` needs it.

    Attributes:
        took_bytes: called whenever the socket has taken some.
        polite: whether `aclose` first ends our side and waits for the peer to end its own.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.took_bytes: Callable[[], object] = lambda: None
        self.polite = False
        self._before_reading: Callable[[], object] = lambda: None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As `trio.abc.SendStream.send_all`."""
        with memoryview(data) as view:
            sent = 0
            try:
                while sent < len(view):
                    sent += await self.stream.socket.send(view[sent:])
                    self.took_bytes()
            except OSError as error:
                raise trio.BrokenResourceError(f"the connection broke: {error}") from error

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As `trio.abc.ReceiveStream.receive_some`."""
        self._before_reading()
        return await self.stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """As `trio.abc.SendStream.wait_send_all_might_not_block`."""
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close; if `polite`, in a way that the peer can still read all that was written."""
        try:
            if self.polite:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.stream.send_eof()
                    while await self.stream.receive_some():
                        pass
        finally:
            await trio.aclose_forcefully(self.stream)

    async def close_politely(self, tls: TlsStream) -> None:
        """Close `tls`, which stands on this, so that the peer can still read all that was written, and knows it is all.

        OpenSSL says no goodbye with input in its hands. So that is taken from it first; more stays with the socket.
        """
        with trio.CancelScope() as until_empty:
            self._before_reading = until_empty.cancel
            while await tls.receive_some():
                pass
        self.polite = True
        await tls.aclose()


TlsStream = trio.SSLStream[SocketUnderTls]


def secured(stream: trio.SocketStream, context: ssl.SSLContext) -> TlsStream:
    """The server's end of TLS on a connection; its handshake is part of the first read or write."""
    return trio.SSLStream(SocketUnderTls(stream), context, server_side=True)
