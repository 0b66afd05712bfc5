"""The interface between the transport and what it serves: `Request`, `Response`, and the `Site` that answers.

The transport reads a request with a small body whole, and `Site.respond` answers it. A site that wants a body as a stream
returns a `BodyTaker` from `Site.take_body`, before the transport reads any of the body. If the client sent
`Expect: 100-continue`, the transport answers 100 when the `BodyTaker` asks for the first piece.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from reactor_trio.protocol.refusals import REFUSALS, RefusalCode
from reactor_trio.transport.message_channel import MessageChannel


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request.

    Attributes:
        method: in capitals.
        path: as sent, not percent-decoded, without the query. Of an absolute target only its path.
        query: the decoded query. If a name is repeated, its first value counts.
        host: the host that the client addresses, lower-case, without the port and without the brackets of IPv6. It is "" if
            an HTTP/1.0 client named no host.
        authority: host and port as sent, but lower-case.
        headers: pairs of lower-case name and value, in order.
        body: always empty for GET and HEAD, even if the client sent one.
        peer: the client's address.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    host: str = ""
    authority: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    peer: str = ""

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"  # the query and the headers may carry a token

    def header(self, name: str) -> str | None:
        """Return the first value of the header `name` (lower-case), or None."""
        return next((value for key, value in self.headers if key == name), None)

    def header_values(self, name: str) -> list[str]:
        """Return every value of the header `name` (lower-case)."""
        return [value for key, value in self.headers if key == name]

    def tokens(self, name: str) -> list[str]:
        """Return the items of a header that is a comma-separated list, from all its lines, as sent."""
        return [item for value in self.header_values(name) for item in map(str.strip, value.split(",")) if item]


class Response(msgspec.Struct, frozen=True):
    """One HTTP response. `headers` replace the transport's standard headers of the same (lower-case) name.

    `refusal` is the code of a refusal, for the header `reactor-refusal`.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    refusal: RefusalCode | None = None

    @classmethod
    def refusing(cls, code: RefusalCode, message: str, headers: Mapping[str, str] | None = None) -> Response:
        """Make the response of a refusal, with the status of its code: one line of plain text."""
        body = f"{message}\n".encode()
        return cls(REFUSALS[code].status, "text/plain; charset=utf-8", body, headers or {}, code)

    @classmethod
    def plain(cls, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
        """Make a response of one line of plain text."""
        return cls(status, "text/plain; charset=utf-8", f"{message}\n".encode(), headers or {})


class Refused(Exception):
    """Raised for a request that cannot be served. The transport sends `response` and closes the connection.

    Attributes:
        client: what the log says of the client besides its address, in printable ASCII.
    """

    def __init__(self, response: Response, client: str = "") -> None:
        super().__init__(response.status)
        self.response = response
        self.client = client

    @classmethod
    def because(
        cls, code: RefusalCode, message: str, headers: Mapping[str, str] | None = None, *, client: str = ""
    ) -> Refused:
        """Make a refusal with one line of plain text."""
        return cls(Response.refusing(code, message, headers), client)


#: Reads the pieces of a request's body, as many as it wants, and returns the response. The transport keeps the connection
#: only if the body was read to its end. The iterator raises Refused (400, 408) and `trio.BrokenResourceError`; the transport
#: handles both.
BodyTaker = Callable[[AsyncIterator[bytes]], Awaitable[Response]]

#: Talks to one admitted client over its WebSocket. When it returns or raises PeerGone, the transport closes the connection.
Conversation = Callable[[MessageChannel], Awaitable[None]]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection. Sizes are in bytes, times in seconds.

    Attributes:
        text_message: longest text message (UTF-8). A longer one closes the WebSocket with 1009.
        binary_message: longest binary message. A longer one closes the WebSocket with 1009.
        text_per_second: bytes of text messages that a client may send in a second, and at once after a pause; a text counts
            as `websocket.LEAST_TEXT` bytes at least. Above it the connection is not read for a while.
        http_head: longest head of a request. A longer one is answered 431.
        http_body: longest body of a request that is read whole. A longer one is answered 413.
        body_time: time for a body that the site reads as a stream. After that the answer is 408.
        handshake: time until a request is complete; after that the answer is 408. As much again has the site to admit a
            WebSocket; after that the answer is 503. And as much has the client to take the answer to its handshake.
        idle: time that a kept-alive HTTP connection may wait for its next request.
        ping_interval: time between two pings of a WebSocket.
        silence: a WebSocket client that sends no byte for this long counts as lost.
        stall: a write of which the client takes no byte for this long ends the connection. A streamed body of which no byte
            arrives for this long is answered 408.
    """

    text_message: int = 256 * 1024
    binary_message: int = 4 * 1024 * 1024
    text_per_second: int = 256 * 1024
    http_head: int = 16 * 1024
    http_body: int = 64 * 1024
    body_time: float = 300
    handshake: float = 10
    idle: float = 30
    ping_interval: float = 10
    silence: float = 20
    stall: float = 15


class Site(Protocol):
    """What a server serves. The transport calls these methods for each request, in this order:

    * every request: `hosts_allowed`, `shared_with`, then `over_limit`;
    * a method other than GET and HEAD: `origin_allowed`, then `take_body`;
    * a plain request: `respond`, unless `take_body` returned a `BodyTaker`;
    * a WebSocket request: `origin_allowed`, then `admit`, then the `Conversation` that `admit` returned; or, if the client
      wants its refusal inside the WebSocket, `refused_socket`.

    Attributes:
        websockets: the paths that are WebSockets.
        methods: the methods that the site takes; others are answered 405.
        limits: of each connection.
    """

    websockets: Sequence[str]
    methods: Sequence[str]
    limits: Limits

    def hosts_allowed(self, host: str) -> bool:
        """Return whether this server answers for `host` (lower-case, without port and brackets). If not: 421."""

    def over_limit(self, request: Request) -> Response | None:
        """Count a request. Returns its refusal if its client sends too many; the connection is closed after that."""

    def origin_allowed(self, origin: str | None, request: Request) -> bool:
        """Return whether a page of `origin` may open a WebSocket or send a body. If not, the answer is 403.

        `origin` is None if the request has no Origin header, as from a program that is not a browser.
        """

    def shared_with(self, request: Request) -> str | None:
        """Return the foreign origin whose pages may read the response to `request`, or None."""

    def take_body(self, request: Request) -> BodyTaker | None:
        """Return the function that reads the body of `request` as a stream, or None to let the transport read it whole.

        The transport reads at most `Limits.http_body` bytes. Raises Refused.
        """

    def respond(self, request: Request) -> Response:
        """Answer a plain request. It is not async, so it must be quick. An exception is logged and answered 500."""

    async def admit(self, request: Request) -> Response | Conversation:
        """Return the conversation for a well-formed WebSocket request, or the response that refuses it.

        This method may wait; after `Limits.handshake` it is cancelled, and the answer is 503. It is the last check: an
        admitted client gets its WebSocket unless it has left.
        """

    def refused_socket(self, request: Request) -> AbstractContextManager[bool]:
        """Count the WebSocket of a refused client until it is closed. Gives False if there are too many of that client.

        The client then gets its refusal by HTTP.
        """
