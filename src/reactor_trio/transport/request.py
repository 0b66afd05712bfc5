"""What goes through an `Exchange`: `Request`, then `Response`, `Refusal` or `Conversation`; and its `Limits`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from reactor_trio.protocol.refusals import Refusal
from reactor_trio.transport.message_channel import MessageChannel

#: The headers of a request: pairs of lower-case name and value, in order.
Headers = tuple[tuple[str, str], ...]


def items_of(headers: Headers, name: str) -> list[str]:
    """Return the items of a header that is a comma-separated list, from all its lines, as sent."""
    return [item for key, value in headers if key == name for item in map(str.strip, value.split(",")) if item]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one HTTP request.

    Attributes:
        method: in capitals.
        path: as sent, not percent-decoded, without the query. Of an absolute target only its path.
        query: the decoded query. If a name is repeated, its first value counts.
        host: the host that the client addresses, lower-case, without the port and without the brackets of IPv6. It is "" if
            an HTTP/1.0 client named no host.
        authority: host and port as sent, but lower-case.
        peer: the client's address.
        version: of HTTP.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    host: str = ""
    authority: str = ""
    headers: Headers = ()
    peer: str = ""
    version: str = "1.1"

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"  # the query and the headers may carry a token

    def header(self, name: str) -> str | None:
        """Return the first value of the header `name` (lower-case), or None."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def has_body(self) -> bool:
        """Whether a body follows that is not empty. The length of a chunked body is not known before."""
        return int(self.header("content-length") or 0) > 0 or self.header("transfer-encoding") is not None

    def header_values(self, name: str) -> list[str]:
        """Return every value of the header `name` (lower-case)."""
        return [value for key, value in self.headers if key == name]

    def tokens(self, name: str) -> list[str]:
        """Return the items of a header that is a comma-separated list, from all its lines, as sent."""
        return items_of(self.headers, name)


class Response(msgspec.Struct, frozen=True):
    """One HTTP response. `headers` replace the transport's standard headers of the same (lower-case) name."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def refusing(cls, refusal: Refusal) -> Response:
        """Make the response of a refusal: one line of plain text, with its code and its headers."""
        body = f"{refusal.message}\n".encode()
        return cls(refusal.kind.status, "text/plain; charset=utf-8", body, refusal.headers)


#: Talks to one admitted client over its WebSocket. When it returns or raises PeerGone, the transport closes the connection.
#: Raises Refused for a client that is not served after all.
Conversation = Callable[[MessageChannel], Awaitable[None]]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection. Sizes are in bytes, times in seconds.

    Attributes:
        text_message: longest text message (UTF-8). A longer one closes the WebSocket with 1009.
        binary_message: longest binary message. A longer one closes the WebSocket with 1009.
        text_per_second: bytes of text messages that a client may send in a second, and at once after a pause; a text counts
            as `websocket_frames.LEAST_FRAME` bytes at least. Above it the connection is not read for a while. Other frames
            have the same rate for the bytes that they are shorter than that.
        http_head: longest head of a request. A longer one is answered 431.
        http_body: longest body of a request that is read whole. A longer one is answered 413.
        body_time: time for a body that is read as a stream. After that the answer is 408.
        handshake: time of each phase of a request (`exchange.py`) that has no limit of its own.
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
