"""One client's WebSocket at the gate: it hears its place in the line, then where its session is, and the socket closes.

    nursery -+- hear   notices that the client leaves; answers what it says too early
             '- tell   positions, answers, and last `reactor.admitted` or `reactor.bye`; the only writer
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio

from reactor_trio.errors import ProtocolError
from reactor_trio.gate.allocation import Asking
from reactor_trio.protocol import EndReason, NotFiniteError, ServerText, close_code, decode_client_text, encode_server_text
from reactor_trio.transport import MessageStream, PeerGone

#: Seconds in which a place that is free comes without a word about the line.
AT_ONCE = 0.1
#: Messages that a client may send while it waits; more is a flood.
MOST_SAID = 256

_TOO_EARLY = "this client waits for its place; commands are taken after the welcome"


class Waiting:
    """A client that waits at its socket.

    Attributes:
        told: whether it may know its place.
    """

    def __init__(self, asking: Asking, messages: MessageStream) -> None:
        self.told = False
        self._asking = asking
        self._messages = messages
        self._answers: list[ServerText] = []
        self._said = 0
        self._flood = False

    async def run(self) -> None:
        """Until it is told its place or why there is none, or has left. Raises nothing of the client's."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, nursery.cancel_scope)
            with suppress(PeerGone):
                await self._tell()
            nursery.cancel_scope.cancel()

    async def _hear(self, all_of_it: trio.CancelScope) -> None:
        try:
            while True:
                self._take(await self._messages.receive())
        except PeerGone:
            all_of_it.cancel()

    def _take(self, message: str | bytes) -> None:
        self._said += 1
        self._flood = self._said > MOST_SAID
        if isinstance(message, str) and not self._flood:
            self._answers.append(_answer(message))
        self._asking.changed.set()

    async def _tell(self) -> None:
        asking = self._asking
        with trio.move_on_after(AT_ONCE):
            await asking.decided.wait()
        shown = 0, 0
        while not asking.decided.is_set() and not self._flood:
            if self._answers:
                await self._say(self._answers.pop(0))
            elif shown != (asking.position, asking.total):
                shown = asking.position, asking.total
                await self._say(_text("reactor.queued", {"position": shown[0], "total": shown[1]}))
            else:
                await asking.changed.wait()
        if asking.place is None:
            await self._goodbye("flood" if self._flood else asking.refused or "draining")
            return
        self.told = True
        await self._say(_text("reactor.admitted", asking.place))
        await self._messages.aclose(1000, "connect to the url that you were told")

    async def _goodbye(self, reason: EndReason) -> None:
        await self._say(_text("reactor.bye", {"reason": reason}))
        await self._messages.aclose(close_code(reason), reason)

    async def _say(self, text: ServerText) -> None:
        await self._messages.send_text(encode_server_text(text))


def _answer(message: str) -> ServerText:
    """To what a client says before it has a session."""
    try:
        text = decode_client_text(message)
    except NotFiniteError as error:
        return _text("reactor.error", {"code": "invalid_command", "message": str(error)}, error.id)
    except ProtocolError as error:
        return _text("reactor.error", {"code": "protocol_error", "message": str(error)})
    return _text("reactor.error", {"code": "not_admitted", "message": _TOO_EARLY}, text.id)


def _text(kind: str, data: Any, number: int | None = None) -> ServerText:
    return ServerText(kind, data, number)
