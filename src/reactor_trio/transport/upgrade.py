"""Checks the WebSocket opening handshake in an HTTP request (RFC 6455, section 4.2.1), without I/O."""

from __future__ import annotations

import re

import msgspec

from reactor_trio.protocol import SUBPROTOCOL
from reactor_trio.protocol.refusals import Refusal, Refused
from reactor_trio.transport.request import Request

#: The path of a server's WebSocket.
WEBSOCKET_PATH = "/ws"

WEBSOCKET_VERSION = "13"
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")  # 16 bytes in base64

#: Headers of a response 426: the protocol and version that the client should use.
UPGRADE_HEADERS = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": WEBSOCKET_VERSION}


class Handshake(msgspec.Struct, frozen=True):
    """A valid opening handshake.

    Attributes:
        key: the request's `Sec-WebSocket-Key`.
        subprotocol: the subprotocol to answer with, or None if the client offered none.
    """

    key: str
    subprotocol: str | None


def wants_websocket(request: Request) -> bool:
    """Return whether `request` asks for the WebSocket protocol, valid or not. Other offers, such as h2c, are ignored."""
    return "websocket" in map(str.lower, request.tokens("upgrade"))


def check_handshake(request: Request) -> Handshake:
    """Return the handshake in `request`. Raises Refused with the fitting status."""
    if request.method != "GET" or request.version != "1.1":
        raise Refused(Refusal("bad_request", "a WebSocket is opened with GET and HTTP/1.1"))
    if "upgrade" not in map(str.lower, request.tokens("connection")):
        raise Refused(Refusal("bad_request", "a WebSocket request needs the header Connection: Upgrade"))
    if request.header_values("sec-websocket-version") != [WEBSOCKET_VERSION]:
        raise Refused(Refusal("upgrade_required", f"only WebSocket version {WEBSOCKET_VERSION} is spoken", UPGRADE_HEADERS))
    keys = request.header_values("sec-websocket-key")
    if len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        raise Refused(Refusal("bad_request", "Sec-WebSocket-Key must be 16 bytes in base64"))
    offered = request.tokens("sec-websocket-protocol")
    if offered and SUBPROTOCOL not in offered:
        raise Refused(Refusal("bad_request", f"unknown subprotocol; offer {SUBPROTOCOL}, or none"))
    return Handshake(keys[0], SUBPROTOCOL if offered else None)
