"""`Exchange`: one HTTP request and its answer. It is made when the head is read, and gone with the answer.

| phase | limit | beyond it |
|---|---|---|
| head (`RequestReader`) | `handshake`, from the first byte on; for a connection's first request from its begin | 408 |
| body, read whole | `handshake` | 408 |
| body, in pieces | `body_time`, and `stall` for each piece | 408 |
| admit: the site decides about a WebSocket | `handshake` | 503 |
| answer: the client takes the response | `stall` for each piece | the connection ends |
| open: the client takes the answer to its handshake | `handshake` | the connection ends |

Each phase begins when the one before ends. A request whose head is refused has no exchange.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import h11
import trio

from reactor_trio.concurrency.lost_time import patient, patient_until, run_time
from reactor_trio.protocol.refusals import REFUSAL_HEADER, Refusal, RefusalCode, Refused
from reactor_trio.transport.message_channel import MessageChannel
from reactor_trio.transport.refusal_bye import accepted_and_refused, refuse_inside, wants_bye
from reactor_trio.transport.request import Conversation, Headers, Limits, Request, Response
from reactor_trio.transport.request_reader import RequestReader
from reactor_trio.transport.response_head import response_headers
from reactor_trio.transport.upgrade import Handshake

log = logging.getLogger("reactor_trio.transport")

_PIECE = 64 * 1024

#: Counts and logs a refusal.
Refusing = Callable[[str, str | None, Refusal], Refusal]


@dataclass(frozen=True)
class PortRules:
    """What holds for each exchange of a port.

    `refused` and `head_refused` are called before a refusal is said, with the connection's other end, the client's address
    and the refusal. They return the one that the client gets.

    Attributes:
        limits: of its connection.
        address_of: returns the address of a client, for its limits, from the connection's other end and the headers of its
            request; None if it has none.
        shared_with: returns the origin of a foreign page that may read the answer to its request, or None.
        refused: for a request with a head.
        head_refused: for a request whose head is refused.
    """

    limits: Limits
    address_of: Callable[[str, Headers], str | None] = lambda _peer, _headers: None
    shared_with: Callable[[Request], str | None] = lambda _request: None
    refused: Refusing = lambda _peer, _address, refusal: refusal
    head_refused: Refusing = lambda _peer, _address, refusal: refusal


class Exchange:
    """One HTTP request and its answer.

    Args:
        reader: that of the connection, which has read the head.
        rules: those of the port.
        counted: see below.
        last: returns whether the connection ends with this answer in any case.

    Attributes:
        request: its head.
        peer: the address of the connection's other end.
        address: that of the client, for its limits; None if it has none.
        shared_with: the origin of a foreign page that may read the answer, or None.
        counted: what lasts as long as the WebSocket that the request asks for: until that is closed, or until the answer by
            HTTP has been sent.
        handshake: that of the WebSocket that the request asks for, once `upgrade` was called.
        conversation: what the request has opened, or None.
        answered: whether the answer was written.
    """

    def __init__(
        self, reader: RequestReader, request: Request, rules: PortRules, counted: ExitStack, last: Callable[[], bool]
    ) -> None:
        self.request = request
        self.peer = request.peer
        self.address = rules.address_of(request.peer, request.headers)
        self.shared_with = None if request.header("origin") is None else rules.shared_with(request)
        self.counted = counted
        self.handshake: Handshake | None = None
        self.conversation: Conversation | None = None
        self.answered = False
        self._limits = rules.limits
        self._reader, self._rules, self._last = reader, rules, last
        self._upgraded = ExitStack()
        self._refused_inside = False
        self._messages: MessageChannel | None = None

    # ---- the body ------------------------------------------------------------------------------------------------------

    async def read_body(self) -> bytes:
        """Read the whole body. Raises Refused (400, 408, 413)."""
        limit, body = self._limits.http_body, bytearray()
        too_long = int(self.request.header("content-length") or 0) > limit  # h11 has checked that it is a number
        with self.within("request_timeout", f"the request was not complete after {self._limits.handshake:g} s"):
            while not too_long and isinstance(event := await self._reader.event(), h11.Data):
                body += event.data
                too_long = len(body) > limit
        if too_long:
            raise Refused(Refusal("too_large", f"a body may have {limit} bytes"))
        return bytes(body)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the pieces of the body as they arrive, none empty. If the client asked, it gets 100 now.

        Raises Refused: 408 if the client takes too long, 400 if it ends the connection in the middle of the body.
        """
        deadline = run_time() + self._limits.body_time
        left = int(self.request.header("content-length") or 0)  # 0 for a chunked body, which is read in small pieces
        while True:
            stalled_at = run_time() + self._limits.stall
            with patient_until(min(deadline, stalled_at)) as patience:
                event = await self._reader.event(min(left, _PIECE) or None)
            if patience.cancelled_caught and stalled_at < deadline:
                raise Refused(Refusal("request_timeout", f"no byte of the body came for {self._limits.stall:g} s"))
            if patience.cancelled_caught:
                raise Refused(Refusal("request_timeout", f"the body was not complete after {self._limits.body_time:g} s"))
            if not isinstance(event, h11.Data):
                return
            left = max(0, left - len(event.data))
            yield bytes(event.data)

    @contextmanager
    def within(self, code: RefusalCode, late: str) -> Iterator[None]:
        """Give a phase its `handshake` seconds. Raises Refused beyond them."""
        with patient(trio.move_on_after(self._limits.handshake)) as phase:
            yield
        if phase.cancelled_caught:
            raise Refused(Refusal(code, late))

    # ---- the answer ---------------------------------------------------------------------------------------------------

    async def answer(self, response: Response) -> None:
        """Send the response. The connection may go on if the request was read to its end, and was not for a WebSocket."""
        await self._send(response, keep_alive=self.handshake is None)

    async def refuse(self, refusal: Refusal) -> None:
        """Say to the client that it is refused: by HTTP, or in its WebSocket by `reactor.bye` or a close frame alone.

        It gets `reactor.bye` if it asks for that. Raises PeerGone if the client has its WebSocket already and has left.
        """
        refusal = self._rules.refused(self.peer, self.address, refusal)
        if self._messages is not None:
            await refuse_inside(self._messages, refusal, bye=wants_bye(self.request))
        elif self.handshake is not None and wants_bye(self.request):
            self._refused_inside = True
            await self._reader.wire.send_all(accepted_and_refused(self.handshake, refusal))
            self.answered = True
        else:
            goes_on = self.handshake is None and not refusal.kind.ends_connection
            await self._send(Response.refusing(refusal), keep_alive=goes_on)

    def upgrade(self, handshake: Handshake, counted: AbstractContextManager[None]) -> None:
        """Take the request for one of a WebSocket. From here on a refusal may go into that.

        `counted` is entered now, and left when the WebSocket is closed or the request is answered by HTTP: a client that has
        its answer may try again at once.
        """
        self._upgraded.enter_context(counted)
        self.counted.push(self._upgraded)
        self.handshake = handshake

    def open(self, conversation: Conversation) -> None:
        """Make this a WebSocket: the connection runs `converse` once the handshake is answered."""
        self.conversation = conversation

    async def converse(self, messages: MessageChannel) -> None:
        """Run the conversation that was opened."""
        assert self.conversation is not None
        self._messages = messages
        try:
            await self.conversation(messages)
        except Refused as refused:
            await self.refuse(refused.refusal)

    async def _send(self, response: Response, *, keep_alive: bool) -> None:
        shared = {} if self.shared_with is None else {"access-control-allow-origin": self.shared_with, "vary": "Origin"}
        if shared and REFUSAL_HEADER in response.headers:  # a script reads why, and when it may try again
            shared["access-control-expose-headers"] = f"{REFUSAL_HEADER}, retry-after"
        self._upgraded.close()
        with self.counted:
            await _send_response(self._reader, response, shared, keep_alive=keep_alive and not self._last())
        self.answered = True

    async def linger(self) -> None:
        """End the connection so that the client gets the answer."""
        await self._reader.linger(until_answered=self._refused_inside)


async def next_exchange(
    reader: RequestReader, rules: PortRules, counted: ExitStack, last: Callable[[], bool], until: float, seconds: float
) -> Exchange | None:
    """Read the head of the next request and return its exchange; None if the head is refused, which ends the connection.

    `until` and `seconds` are those of `RequestReader.request`, the others those of `Exchange`.
    """
    try:
        return Exchange(reader, await reader.request(until, seconds), rules, counted, last)
    except Refused as refused:
        peer = reader.wire.peer
        refusal = rules.head_refused(peer, rules.address_of(peer, reader.headers), refused.refusal)
    await _send_response(reader, Response.refusing(refusal), {}, keep_alive=False)
    await reader.linger(until_answered=False)
    return None


async def _send_response(
    reader: RequestReader, response: Response, more_headers: dict[str, str], *, keep_alive: bool
) -> None:
    headers = more_headers | response_headers(response)
    if not (keep_alive and reader.whole):
        headers["connection"] = ", ".join(filter(None, (headers.get("connection"), "close")))
    reason = HTTPStatus(response.status).phrase
    head = reader.http.send(h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason))
    body = b"" if reader.method == b"HEAD" else response.body
    reader.http.send(h11.Data(data=body))
    reader.http.send(h11.EndOfMessage())
    log.debug("%s: answered %d", reader.wire.peer, response.status)
    await reader.wire.send_parts(head, body)
