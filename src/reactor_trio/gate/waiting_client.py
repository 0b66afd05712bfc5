"""`WaitingClient`: one client's WebSocket at the gate, while the client waits in the queue.

Two tasks serve it:

    nursery -+- receiver   notices that the client leaves; answers commands, which come too early
             '- sender     the only writer: positions, answers, and last `reactor.admitted` or `reactor.bye`
"""

from __future__ import annotations

import math
from contextlib import suppress

import trio

from reactor_trio.errors import ProtocolError
from reactor_trio.gate.allocation import SlotRequest
from reactor_trio.protocol import (
    BEAT,
    EndReason,
    NotFiniteError,
    ServerText,
    close_code,
    decode_client_text,
    encode_server_text,
    presentable,
)
from reactor_trio.transport import MessageChannel, PeerGone

#: Seconds after which a client that still waits gets its first position.
FIRST_POSITION = 0.1
#: The most messages that a client may send while it waits; more is a flood.
MOST_MESSAGES = 256

_TOO_EARLY = "this client waits for its place; commands are taken after the welcome"


class WaitingClient:
    """Serves one waiting client at its WebSocket, from the handshake to the close.

    Args:
        heartbeat: seconds between two pings.
        beats: whether the client gets `reactor.beat` after each heartbeat without another message.
    """

    def __init__(self, request: SlotRequest, messages: MessageChannel, heartbeat: float, *, beats: bool) -> None:
        self._request = request
        self._messages = messages
        self._heartbeat = heartbeat
        self._pause = heartbeat if beats else math.inf
        self._sent_at = trio.current_time()
        self._answers: list[ServerText] = []
        self._received = 0

    async def run(self) -> None:
        """Send positions until the client is admitted, is refused or has left. Client errors are never raised."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, nursery.cancel_scope)
            with suppress(PeerGone):
                await self._send()
            nursery.cancel_scope.cancel()

    @property
    def _floods(self) -> bool:
        return self._received > MOST_MESSAGES

    async def _receive(self, both: trio.CancelScope) -> None:
        try:
            while True:
                message = await self._messages.receive()
                self._received += 1
                if isinstance(message, str) and not self._floods:
                    self._answers.append(_answer(message))
                self._request.changed.set()
        except PeerGone:
            both.cancel()

    async def _send(self) -> None:
        request = self._request
        with trio.move_on_after(FIRST_POSITION):
            await request.decided.wait()
        sent = 0, 0
        while not request.decided.is_set() and not self._floods:
            if self._answers:
                await self._send_text(self._answers.pop(0))
            elif sent != (request.position, request.total):
                sent = request.position, request.total
                # The gate does not know when the sessions of its servers end.
                data = {"position": sent[0], "total": sent[1], "wait": None, "heartbeat": self._heartbeat}
                await self._send_text(ServerText("reactor.queued", data))
            elif trio.current_time() >= self._sent_at + self._pause:
                await self._send_raw(BEAT)
            else:
                await request.changed.wait(self._sent_at + self._pause)
        if request.admitted is not None:
            request.kept = True
            await self._send_text(ServerText("reactor.admitted", request.admitted))
            await self._messages.aclose(1000, "connect to the url in reactor.admitted")
        else:
            reason: EndReason = "flood" if self._floods else request.refused or "draining"
            await self._send_text(ServerText("reactor.bye", {"reason": reason}))
            await self._messages.aclose(close_code(reason), reason)

    async def _send_text(self, text: ServerText) -> None:
        await self._send_raw(encode_server_text(text))

    async def _send_raw(self, text: str) -> None:
        await self._messages.send_text(text)
        self._sent_at = trio.current_time()


def _answer(message: str) -> ServerText:
    """Return the error that answers a message of a client without a session."""
    try:
        text = decode_client_text(message)
    except NotFiniteError as error:
        return ServerText("reactor.error", {"code": "invalid_command", "message": presentable(str(error))}, error.id)
    except ProtocolError as error:
        return ServerText("reactor.error", {"code": "protocol_error", "message": presentable(str(error))})
    return ServerText("reactor.error", {"code": "not_admitted", "message": _TOO_EARLY}, text.id)
