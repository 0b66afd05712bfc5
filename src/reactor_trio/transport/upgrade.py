"""Checks the WebSocket opening handshake in an HTTP request (RFC 6455, section 4.2.1), without I/O."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from reactor_trio.protocol import SUBPROTOCOL
from reactor_trio.transport.site import Refused, Request

#: The path of a server's WebSocket.
WEBSOCKET_PATH = "/ws"

_VERSION = "13"

#: Headers of a response 426: the protocol and version that the client should use.
UPGRADE_HEADERS = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": _VERSION}


#: Headers of every response, also of the 101 that accepts a handshake. Because of them browsers name no URL of ours to other
#: sites: a URL may contain a token.
STANDARD_HEADERS = {"cache-control": "no-cache", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}


class Handshake(msgspec.Struct, frozen=True):
    """A valid opening handshake.

    Attributes:
        request: the request that opens the WebSocket.
        key: its `Sec-WebSocket-Key`.
        subprotocol: the subprotocol to answer with, or None if the client offered none.
    """

    request: Request
    key: str
    subprotocol: str | None

    @property
    def head(self) -> bytes:
        """The same handshake as a minimal request head.

        trio-websocket parses the head a second time, and more strictly than RFC 9110: it allows one Connection header, one
        protocol in Upgrade, and only an IDNA host. So it gets this head instead of the one that the client sent.
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
    """Return whether `request` asks for the WebSocket protocol, valid or not. Other offers, such as h2c, are ignored."""
    return "websocket" in map(str.lower, request.tokens("upgrade"))


def check_handshake(request: Request, http_version: str, paths: Sequence[str] = (WEBSOCKET_PATH,)) -> Handshake:
    """Return the handshake in `request`, which must be for one of `paths`. Raises Refused with the fitting status."""
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
