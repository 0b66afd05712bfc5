"""The messages of callers over one connection: packets of the input tracks, and texts that concern only this connection.

The connection's own task writes them, one at a time. So a caller that is cancelled never cuts a message in two, which would
break the connection: a message that has begun is sent whole, and one that has not begun is not sent.
"""

from __future__ import annotations

from collections import deque

import anyio

from reactor_trio.client.client_transport import Transport


class _Outgoing:
    """One message, for which its caller waits."""

    def __init__(self, message: str | bytes) -> None:
        self.message = message
        self.sent = False
        self.over = anyio.Event()


class MessageSender:
    """The callers' messages of one connection, in their order. A caller waits, so each has one message here at most."""

    def __init__(self) -> None:
        self._waiting: deque[_Outgoing] = deque()
        self._begun: _Outgoing | None = None
        self._put = anyio.Event()
        self._ended = False

    async def send(self, message: str | bytes) -> bool:
        """Return True when the connection has taken `message`, and False when the connection ended first.

        Cancelled before the message has begun, nothing is sent; later, it is sent whole.
        """
        if self._ended:
            return False
        outgoing = _Outgoing(message)
        self._waiting.append(outgoing)
        self._put.set()
        try:
            await outgoing.over.wait()
        except BaseException:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)
            raise
        return outgoing.sent

    async def send_all(self, transport: Transport) -> None:
        """Write the messages to `transport`, now and later, until cancelled. Raises TransportClosed."""
        while True:
            while self._waiting:
                self._begun = outgoing = self._waiting.popleft()
                message = outgoing.message
                await (transport.send(message) if isinstance(message, str) else transport.send_bytes(message))
                outgoing.sent = True
                outgoing.over.set()
            self._put = anyio.Event()
            await self._put.wait()

    def end(self) -> None:
        """The connection has ended: no caller waits any longer."""
        self._ended = True
        for outgoing in (*((self._begun,) if self._begun is not None else ()), *self._waiting):
            outgoing.over.set()
        self._waiting.clear()
