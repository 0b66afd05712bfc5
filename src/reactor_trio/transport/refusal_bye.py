"""Refusals inside a WebSocket, for a client that has `refusals=bye` in its query.

A browser shows a page neither the status nor the text of a refused WebSocket. A client that asks for it therefore gets its
WebSocket, in it `reactor.bye` with both, and then a close frame. The server writes all of that at once and parses nothing
that the client sends, so such a refusal costs what a refusal by HTTP costs. It ends its side of the connection when the
client's close frame has come: Firefox gives a page nothing of a WebSocket that ends together with its handshake.
"""

from __future__ import annotations

from reactor_trio.protocol import ServerText, close_code, encode_server_text, presentable
from reactor_trio.protocol.reasons import REFUSED
from reactor_trio.protocol.refusals import Refusal
from reactor_trio.transport.message_channel import MessageChannel
from reactor_trio.transport.request import Request
from reactor_trio.transport.response_head import STANDARD_HEADERS, head_bytes
from reactor_trio.transport.upgrade import Handshake
from reactor_trio.transport.websocket_frames import TEXT, close_frame, frame_header


def wants_bye(request: Request) -> bool:
    """Return whether the client asks for refusals inside the WebSocket."""
    return request.query.get("refusals") == "bye"


def accepted_and_refused(handshake: Handshake, refusal: Refusal) -> bytes:
    """Return all that the server sends to a client that it refuses: the handshake's answer, `reactor.bye`, a close frame."""
    from wsproto.utilities import generate_accept_token  # late, so that the server listens sooner

    headers = {
        "upgrade": "websocket", "connection": "upgrade",
        "sec-websocket-accept": generate_accept_token(handshake.key.encode()).decode(), **STANDARD_HEADERS,
    }  # fmt: skip
    if handshake.subprotocol is not None:
        headers["sec-websocket-protocol"] = handshake.subprotocol
    bye = _bye(refusal).encode()
    close = close_frame(refusal.kind.close_code, REFUSED)
    return head_bytes(101, headers) + frame_header(TEXT, len(bye)) + bye + close


async def refuse_inside(messages: MessageChannel, refusal: Refusal, *, bye: bool) -> None:
    """Refuse a client that has its WebSocket already. Raises PeerGone.

    Without `bye` the client gets the `reactor.bye` of a session that ends for this reason. If no session ends for it, the
    client gets a close frame alone.
    """
    if bye:
        await messages.send_text(_bye(refusal))
        await messages.aclose(refusal.kind.close_code, REFUSED)
    elif (end := refusal.kind.end) is not None:
        why = {"reason": end, "message": refusal.message, "code": refusal.code}
        await messages.send_text(encode_server_text(ServerText("reactor.bye", why)))
        await messages.aclose(close_code(end), end)
    else:
        await messages.aclose(refusal.kind.close_code, refusal.message)


def _bye(refusal: Refusal) -> str:
    return encode_server_text(
        ServerText(
            "reactor.bye",
            {
                "reason": REFUSED,
                "status": refusal.kind.status,
                "message": presentable(refusal.message.strip()),
                "retry_after": refusal.retry_after,
                "code": refusal.code,
            },
        )
    )
