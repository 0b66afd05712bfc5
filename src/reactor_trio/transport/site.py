"""What a web server is made of, seen from the transport: requests, responses and the site that answers them.

A request with a small body is read whole and answered by `Site.respond`. A site that wants to stream a body says so in
`Site.take_body`, before any of it is read; a client that asked whether it may send (`Expect: 100-continue`) is told to go
on when the first piece is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from reactor_trio.transport.message_stream import MessageStream


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request.

    Attributes:
        method: in capitals.
        path: as sent, not percent-decoded, without the query; of an absolute target, its path.
        query: the decoded query; of a repeated name the first value counts.
        host: the host it is for, lower-cased, without port and, for IPv6, brackets; "" if an HTTP/1.0 client gave none.
        authority: the same with the port, as sent but lower-cased.
        headers: (lower-cased name, value), in order.
        body: empty for GET and HEAD, whatever was sent with them.
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
        """The first value of the header `name` (lower-case), or None."""
        return next((value for key, value in self.headers if key == name), None)

    def header_values(self, name: str) -> list[str]:
        """Every value of the header `name` (lower-case)."""
        return [value for key, value in self.headers if key == name]

    def tokens(self, name: str) -> list[str]:
        """The items of a header that is a comma-separated list, over all its lines, as sent."""
        return [item for value in self.header_values(name) for item in map(str.strip, value.split(",")) if item]


class Response(msgspec.Struct, frozen=True):
    """One HTTP answer; `headers` come after the standard ones and replace those of the same (lower-case) name."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def plain(cls, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
        """An answer for people: one line of text."""
        return cls(status, "text/plain; charset=utf-8", f"{message}\n".encode(), headers or {})


class Refused(Exception):
    """A request that cannot be served; `response` says why. The connection is closed after it."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response

    @classmethod
    def because(cls, status: int, message: str, headers: Mapping[str, str] | None = None) -> Refused:
        """A refusal in one line of text."""
        return cls(Response.plain(status, message, headers))


#: Answers a request whose body it reads, in pieces, as far as it likes. The connection is kept only if it read all. The
#: iterator raises Refused (400, 408) and `trio.BrokenResourceError`, which are the transport's to handle.
BodyTaker = Callable[[AsyncIterator[bytes]], Awaitable[Response]]

#: Talks to one client that was admitted, over its WebSocket; when this returns, or raises PeerGone, the connection is
#: closed.
Conversation = Callable[[MessageStream], Awaitable[None]]


class Site(Protocol):
    """What is served.

    For each request the transport asks `hosts_allowed` and `shared_with`, then `respond`; for a method other than GET and
    HEAD `origin_allowed` and `take_body` before it; for a WebSocket instead `origin_allowed`, `admit`, and what that gave.

    Attributes:
        websockets: the paths that are WebSockets.
    """

    websockets: Sequence[str]

    def hosts_allowed(self, host: str) -> bool:
        """Whether requests for `host` (lower-case, without port and brackets) are for this server; else 421."""

    def origin_allowed(self, origin: str | None, request: Request) -> bool:
        """Whether a page of `origin` (None: no browser, or none said) may open a WebSocket or send a body; else 403."""

    def shared_with(self, request: Request) -> str | None:
        """The origin whose pages may read the answer to `request` although it is not its own; None: there is none."""

    def take_body(self, request: Request) -> BodyTaker | None:
        """Who takes the body of `request`, or None to have it read whole, up to `Limits.http_body`. Raises Refused."""

    def respond(self, request: Request) -> Response:
        """Answer a plain request; not async, so it must be quick. What it raises is logged and answered 500."""

    async def admit(self, request: Request) -> Response | Conversation:
        """Who talks to the client of a well-formed WebSocket request, or the answer that refuses it.

        May wait until it knows. It is asked last: whoever is admitted gets a WebSocket, unless the client has left.
        """
