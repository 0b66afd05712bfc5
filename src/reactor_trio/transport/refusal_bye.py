"""Refusals inside a WebSocket, for a client that has `refusals=bye` in its query.

A browser shows a page neither the status nor the text of a refused WebSocket. A client that asks for it therefore gets its
WebSocket, in it `reactor.bye` with both, and then a close frame. The server writes all of that at once and parses nothing
that the client sends, so such a refusal costs what a refusal by HTTP costs. It ends its side of the connection when the
client's close frame has come: Firefox gives a page nothing of a WebSocket that ends together with its handshake.
"""

from __future__ import annotations

from reactor_trio.protocol import ServerText, close_code, encode_server_text, presentable
from reactor_trio.protocol.reasons import REFUSED, refusal_close_code
from reactor_trio.protocol.refusals import Refused
from reactor_trio.transport.message_channel import MessageChannel
from reactor_trio.transport.request import Request
from reactor_trio.transport.upgrade import STANDARD_HEADERS, Handshake
from reactor_trio.transport.websocket_frames import TEXT, close_frame, frame_header


def wants_bye(request: Request) -> bool:
    """Return whether the client asks for refusals inside the WebSocket."""
    return request.query.get("refusals") == "bye"


def accepted_and_refused(handshake: Handshake, refused: Refused) -> bytes:
    """Return all that the server sends to a client that it refuses: the handshake's answer, `reactor.bye`, a close frame."""
    from wsproto.utilities import generate_accept_token  # late, so that the server listens sooner

    lines = {
        "upgrade": "websocket", "connection": "upgrade",
        "sec-websocket-accept": generate_accept_token(handshake.key.encode()).decode(), **STANDARD_HEADERS,
    }  # fmt: skip
    if handshake.subprotocol is not None:
        lines["sec-websocket-protocol"] = handshake.subprotocol
    head = "HTTP/1.1 101 Switching Protocols\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    bye = _bye(refused).encode()
    close = close_frame(refusal_close_code(refused.kind.status), REFUSED)
    return f"{head}\r\n".encode() + frame_header(TEXT, len(bye)) + bye + close


async def refuse_inside(messages: MessageChannel, refused: Refused, *, bye: bool) -> None:
    """Refuse a client that has its WebSocket already. Raises PeerGone.

    Without `bye` the client gets the `reactor.bye` of a session that ends for this reason. If no session ends for it, the
    client gets a close frame alone.
    """
    if bye:
        await messages.send_text(_bye(refused))
        await messages.aclose(refusal_close_code(refused.kind.status), REFUSED)
    elif (end := refused.kind.end) is not None:
        await messages.send_text(encode_server_text(ServerText("reactor.bye", {"reason": end, "message": refused.message})))
        await messages.aclose(close_code(end), end)
    else:
        await messages.aclose(refusal_close_code(refused.kind.status), refused.message)


def _bye(refused: Refused) -> str:
    return encode_server_text(
        ServerText(
            "reactor.bye",
            {
                "reason": REFUSED,
                "status": refused.kind.status,
                "message": presentable(refused.message.strip()),
                "retry_after": refused.after,
                "code": refused.code,
            },
        )
    )
