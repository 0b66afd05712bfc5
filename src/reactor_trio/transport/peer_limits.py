"""How much a peer may send, and for how long it may keep us waiting."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one connection; sizes in bytes, times in seconds.

    Attributes:
        text_message: longest text message (UTF-8), above it the WebSocket is closed with 1009.
        binary_message: longest binary message, likewise.
        http_head: longest head of a request, above it 431.
        http_body: longest body of a request that is read whole, above it 413.
        body_time: time for a body that is streamed to the site; then 408.
        handshake: time for a request, or a WebSocket handshake, to be complete; then 408.
        idle: how long a kept-alive HTTP connection may wait for its next request.
        ping_interval: time between pings of a WebSocket.
        silence: without a byte for this long a WebSocket client counts as lost.
        stall: a write that gets rid of no byte for this long ends the connection; a streamed body of which no byte comes
            for this long is answered 408.
    """

    text_message: int = 256 * 1024
    binary_message: int = 4 * 1024 * 1024
    http_head: int = 16 * 1024
    http_body: int = 64 * 1024
    body_time: float = 300
    handshake: float = 10
    idle: float = 30
    ping_interval: float = 10
    silence: float = 20
    stall: float = 15
