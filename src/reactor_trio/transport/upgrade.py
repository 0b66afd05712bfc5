"""From an HTTP request to a WebSocket handshake: what must hold (RFC 6455 section 4.2.1), decided without any I/O."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from reactor_trio.protocol import SUBPROTOCOL
from reactor_trio.transport.site import Refused, Request

#: The path at which a server has its WebSocket.
WEBSOCKET_PATH = "/ws"

_VERSION = "13"

#: What an answer 426 says about the protocol to come back with.
UPGRADE_HEADERS = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": _VERSION}


#: What every answer carries, the 101 to a handshake too: no other site is told an address that has a token in it.
STANDARD_HEADERS = {"cache-control": "no-cache", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}


class Handshake(msgspec.Struct, frozen=True):
    """An acceptable opening handshake.

    Attributes:
        request: the request it came in.
        key: `Sec-WebSocket-Key`.
        subprotocol: the one to answer with, or None if the client offered none.
    """

    request: Request
    key: str
    subprotocol: str | None

    @property
    def head(self) -> bytes:
        """The same handshake in its plainest spelling.

        trio-websocket parses the head once more and is stricter than RFC 9110 about how it may be written (it knows one
        Connection header, one protocol in Upgrade, an IDNA host), so it gets what was understood, not what was sent.
        """
        lines = [
            f"GET {WEBSOCKET_PATH} HTTP/1.1",
            "Host: localhost",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self.key}",
            f"Sec-WebSocket-Version: {_VERSION}",
        ]
        if self.subprotocol is not None:
            lines.append(f"Sec-WebSocket-Protocol: {self.subprotocol}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def wants_websocket(request: Request) -> bool:
    """Whether `request` asks for the WebSocket protocol, rightly or not; an offer of h2c, say, is simply not taken."""
    return "websocket" in map(str.lower, request.tokens("upgrade"))


def check_handshake(request: Request, http_version: str, paths: Sequence[str] = (WEBSOCKET_PATH,)) -> Handshake:
    """The handshake that `request` is, at one of `paths`. Raises Refused with the status that says what is wrong with it."""
    if request.path not in paths:
        raise Refused.because(404, f"there is no WebSocket at {request.path}, only at {' and '.join(paths)}")
    if request.method != "GET" or http_version != "1.1":
        raise Refused.because(400, "a WebSocket is opened with GET and HTTP/1.1")
    if "upgrade" not in map(str.lower, request.tokens("connection")):
        raise Refused.because(400, "a WebSocket request needs the header Connection: Upgrade")
    if request.header_values("sec-websocket-version") != [_VERSION]:
        raise Refused.because(426, f"only WebSocket version {_VERSION} is spoken", UPGRADE_HEADERS)
    keys = request.header_values("sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise Refused.because(400, "Sec-WebSocket-Key must be 16 bytes in base64")
    offered = request.tokens("sec-websocket-protocol")
    if offered and SUBPROTOCOL not in offered:
        raise Refused.because(400, f"unknown subprotocol; offer {SUBPROTOCOL}, or none")
    return Handshake(request, keys[0], SUBPROTOCOL if offered else None)


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
