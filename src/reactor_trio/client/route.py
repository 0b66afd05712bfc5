"""Where a session is: at the server that the user named, or, if that server is a gate, at the replica of the gate's choice.

    called --- reactor.welcome            the session is at this server
           '-- reactor.admitted --- replica --- reactor.welcome      it is at the replica, as are uploads and reconnects
                                    '-- refused: ask the gate again

A gate may not know yet that its replica died or gave the place away. The client then asks the gate again, a few times, and
finally raises the error of the last try. A server sends its first message at once, so one that opens the WebSocket and says
nothing counts as one that cannot be reached. The client shows the user's token to the gate and the ticket to the replica.
Neither of them sees the other's secret.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio

from reactor_trio.client.client_transport import WebSocketTransport
from reactor_trio.client.handshake import address, answer_within, open_websocket
from reactor_trio.client.http_request import Answer, http_get, http_post
from reactor_trio.client.receiver import Observed
from reactor_trio.client.refusals import retry_of
from reactor_trio.client.session_events import Queued
from reactor_trio.client.urls import replica_url, resuming_url
from reactor_trio.errors import ConnectionRefused, ProtocolError
from reactor_trio.protocol import Admitted, VideoChoice, Welcome

#: How often the client asks a gate again, and the seconds before the first time. The nth time waits n times as long.
GATE_RETRIES, RETRY_PAUSE = 3, 0.5
#: Heartbeats without a byte after which a server is lost. The server treats its clients alike; one heartbeat may be late.
_MISSED_BEATS = 2


@dataclass(repr=False)  # a token is no text for a log
class Route:
    """The addresses and credentials of one session's connections.

    Args:
        called: a URL of `session_url`, with `follow`.
        token: the token for the server at `called`.
        on_admitted: called with the address of each replica to which a gate sends this client.
        ssl_context, max_message_size, timeout: as for `open_websocket`, for each connection.

    Attributes:
        address: the WebSocket URL, with the session's query, of the server that has the session.
    """

    called: str
    token: str | None
    on_admitted: Callable[[str], object] | None
    ssl_context: ssl.SSLContext | None
    max_message_size: int
    timeout: float

    def __post_init__(self) -> None:
        self.address = self.called
        self._retries = 0
        self._silence = math.inf
        self._newest: WebSocketTransport | None = None

    async def connect(self) -> WebSocketTransport:
        """Connect to the server that the user named, and wait for its first message.

        Raises as `open_websocket`, also TimeoutError if no message comes in time.
        """
        transport = await self._open(self.called, self.token)
        await self._first_message(transport, self.called)  # of one that has closed, `receive` raises why
        return transport

    async def follow(self, admitted: Admitted) -> WebSocketTransport:
        """Connect to the replica. If it refuses, connect to the gate again, which may name another replica.

        Raises ProtocolError for a message that no gate sends, and the last try's error as `open_websocket` does.
        """
        if self.address != self.called:  # it follows a gate already
            raise ProtocolError("reactor.admitted: a replica redirects its clients, which only a gate may do")
        try:
            url = replica_url(admitted.url, self.called)
            self._silence = math.inf  # until the replica says its own heartbeat
            transport = await self._open(url, admitted.ticket, min(self.timeout, admitted.claim_within))
            if not await self._first_message(transport, url):
                await transport.aclose()
                raise ConnectionError(f"{address(urlsplit(url))} closed the connection without a message")
        except ValueError as error:
            raise ProtocolError(f"reactor.admitted: {error}") from None
        except (ConnectionRefused, OSError) as error:
            final = isinstance(error, ConnectionRefused) and retry_of(error) is None
            if final or self._retries == GATE_RETRIES:
                raise
            self._retries += 1
            await anyio.sleep(RETRY_PAUSE * self._retries)
            return await self.connect()
        self.address = url
        if self.on_admitted is not None:
            self.on_admitted(admitted.url)
        return transport

    async def reopen(self, resume_token: str, after: int, video: VideoChoice | None) -> WebSocketTransport:
        """Reconnect to the session with its resume token, and no other credential; a `Reopen`."""
        return await self._open(resuming_url(self.address, resume_token, after, video))

    async def post(self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> Answer:
        """Post to the server that has the session; a `Post`."""
        return await http_post(self.address, target, headers, body, ssl_context=self.ssl_context, timeout=self.timeout)

    async def get(self, target: str, most: int) -> Answer:
        """Get from the server that has the session; a `Get`."""
        return await http_get(self.address, target, {}, most=most, ssl_context=self.ssl_context, timeout=self.timeout)

    def hear(self, event: Observed) -> None:
        """Learn the server's heartbeat, from its queue or its welcome: two of them without a byte are a lost link."""
        match event:
            case Queued(heartbeat=float() as heartbeat) | Welcome(heartbeat=heartbeat):
                self._silence = _MISSED_BEATS * heartbeat
                if self._newest is not None:
                    self._newest.expect_byte_every(self._silence)

    async def _open(self, url: str, token: str | None = None, timeout: float | None = None) -> WebSocketTransport:
        transport = await open_websocket(
            url, token=token, ssl_context=self.ssl_context, max_message_size=self.max_message_size,
            timeout=self.timeout if timeout is None else timeout,
        )  # fmt: skip
        transport.expect_byte_every(self._silence)
        self._newest = transport
        return transport

    async def _first_message(self, transport: WebSocketTransport, url: str) -> bool:
        """Wait for the server's first message. Returns False if the connection ended without one. Raises TimeoutError."""
        try:
            with answer_within(self.timeout, urlsplit(url)):
                return await transport.wait_message()
        except BaseException:
            await transport.aclose()
            raise
