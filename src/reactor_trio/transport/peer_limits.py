"""The limits of one connection: how much a client may send, and how long the server waits for it."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection. Sizes are in bytes, times in seconds.

    Attributes:
        text_message: longest text message (UTF-8). A longer one closes the WebSocket with 1009.
        binary_message: longest binary message. A longer one closes the WebSocket with 1009.
        http_head: longest head of a request. A longer one is answered 431.
        http_body: longest body of a request that is read whole. A longer one is answered 413.
        body_time: time for a body that the site reads as a stream. After that the answer is 408.
        handshake: time until a request, or a WebSocket handshake, is complete. After that the answer is 408.
        idle: time that a kept-alive HTTP connection may wait for its next request.
        ping_interval: time between two pings of a WebSocket.
        silence: a WebSocket client that sends no byte for this long counts as lost.
        stall: a write of which the client takes no byte for this long ends the connection. A streamed body of which no byte
            arrives for this long is answered 408.
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
