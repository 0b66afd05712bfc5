"""Where a session is: at the server that was called or, if that is a gate, at the replica to which it sends this client.

    called --- reactor.welcome            the session is here
           '-- reactor.admitted --- replica --- reactor.welcome      it is there: so are uploads and the way back
                                    '-- not let in: ask the gate again

A gate that has given a place knows no sooner than its client that the replica is gone or has given the place away; so the
client asks it again, a few times, and what the last try said is what the user is told. The gate is shown the user's token,
a replica the ticket, and neither what is for the other.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import anyio

from reactor_trio.client.client_transport import MAX_MESSAGE_SIZE, WebSocketTransport
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.uploads import HttpPost
from reactor_trio.client.urls import replica_url, resuming_url
from reactor_trio.errors import ConnectionRefused, ProtocolError
from reactor_trio.protocol import Admitted

#: How often a gate is asked again, and the seconds before the first time; before the second twice, and so on.
AGAIN, PAUSE = 3, 0.5
#: What a replica answers that says nothing of another one.
_ELSEWHERE_MAYBE = (401, 403, 429, 502, 503, 504)
#: Beats without a byte after which a server is lost, as it counts its clients: one may be late.
_MISSED_BEATS = 2


class Route:
    """The way to one session, from the first connection to the last.

    Args:
        called: a URL of `session_url`, with `follow`.
        token: what the server that was called is shown.
        on_admitted: called with the address of each replica to which a gate sends this client.
        ssl_context, max_message_size, timeout: as for `open_websocket`, of each connection.

    Attributes:
        address: the WebSocket URL, with the session's query, where the session is or will be.
    """

    def __init__(
        self,
        called: str,
        token: str | None = None,
        *,
        on_admitted: Callable[[str], object] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        max_message_size: int = MAX_MESSAGE_SIZE,
        timeout: float = 10.0,
    ) -> None:
        self.address = called
        self._called = called
        self._token = token
        self._on_admitted = on_admitted
        self._ssl_context = ssl_context
        self._max_message_size = max_message_size
        self._timeout = timeout
        self._at_replica = False
        self._asked_again = 0
        self._silence = math.inf
        self._newest: WebSocketTransport | None = None

    async def call(self) -> WebSocketTransport:
        """A connection to the server that was called. Raises as `open_websocket`."""
        return await self._open(self._called, self._token)

    async def follow(self, admitted: Admitted) -> WebSocketTransport:
        """A connection to the replica; or to the gate again, which may know another one, if this one lets nobody in.

        Raises ProtocolError for what no gate says, and as `open_websocket` what the last of all tries said.
        """
        if self._at_replica:
            raise ProtocolError("reactor.admitted: a replica sends its clients elsewhere, which is for a gate")
        try:
            address = replica_url(admitted.url, self._called)
            transport = await self._open(address, admitted.ticket, min(self._timeout, admitted.claim_within))
        except ValueError as error:
            raise ProtocolError(f"reactor.admitted: {error}") from None
        except (ConnectionRefused, OSError) as error:
            if self._asked_again == AGAIN or not _may_be_let_in_elsewhere(error):
                raise
            self._asked_again += 1
            await anyio.sleep(PAUSE * self._asked_again)
            return await self.call()
        self.address, self._at_replica = address, True
        if self._on_admitted is not None:
            self._on_admitted(admitted.url)
        return transport

    async def reopen(self, resume_token: str, after: int, video: Sequence[str] | None) -> WebSocketTransport:
        """Another connection to the session; a `Reopen`. What it shows is the session's resume token, and nothing else."""
        return await self._open(resuming_url(self.address, resume_token, after, video))

    async def post(self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> tuple[int, bytes]:
        """Post to the server where the session is; a `Post`."""
        post = HttpPost(self.address, ssl_context=self._ssl_context, timeout=self._timeout)
        return await post(target, headers, body)

    def expect_beat_every(self, seconds: float) -> None:
        """From now on a server that is silent for two such times is lost."""
        self._silence = _MISSED_BEATS * seconds
        if self._newest is not None:
            self._newest.expect_byte_every(self._silence)

    async def _open(self, url: str, token: str | None = None, timeout: float | None = None) -> WebSocketTransport:
        transport = await open_websocket(
            url, token=token, ssl_context=self._ssl_context, max_message_size=self._max_message_size,
            timeout=self._timeout if timeout is None else timeout,
        )  # fmt: skip
        transport.expect_byte_every(self._silence)
        self._newest = transport
        return transport


def _may_be_let_in_elsewhere(error: ConnectionRefused | OSError) -> bool:
    return isinstance(error, OSError) or error.status in _ELSEWHERE_MAYBE
