"""`Exchange`: one HTTP request and its answer. It is made for a request and gone with the answer.

| phase | limit | beyond it |
|---|---|---|
| head | `handshake`, from the first byte on; for a connection's first request from its begin | 408 |
| body, read whole | `handshake` | 408 |
| body, in pieces | `body_time`, and `stall` for each piece | 408 |
| admit: the site decides about a WebSocket | `handshake` | 503 |
| answer: the client takes the response | `stall` for each piece | the connection ends |
| open: the client takes the answer to its handshake | `handshake` | the connection ends |

Each phase begins when the one before ends.

h11 accepts more than the standard's own grammar, and a proxy in front may read the same bytes differently: what one of them
reads as a body the other reads as a second request (*request smuggling*). So a request with two readings is refused (400)
and its connection closed: a request with Content-Length and Transfer-Encoding, and one whose head or trailer has a line that
ends without CR or is folded (RFC 9112, sections 2.2, 5.2 and 6.3). An `Expect` that h11 would ignore is refused, too (417).
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import h11
import trio

from reactor_trio.concurrency.lost_time import patient, patient_until, run_time
from reactor_trio.protocol.refusals import REFUSAL_HEADER, REFUSALS, Refusal, RefusalCode, Refused
from reactor_trio.transport.message_channel import MessageChannel
from reactor_trio.transport.refusal_bye import accepted_and_refused, refuse_inside, wants_bye
from reactor_trio.transport.request import Conversation, Limits, Request, Response
from reactor_trio.transport.request_head import parse_head
from reactor_trio.transport.response_head import response_headers
from reactor_trio.transport.upgrade import Handshake
from reactor_trio.transport.wire_stream import WireStream

logger = logging.getLogger(__name__)

_PIECE = 64 * 1024
_NOT_STRICT = re.compile(rb"(?<!\r)\n|\n[ \t]")


@dataclass(frozen=True)
class PortRules:
    """What holds for each exchange of a port.

    Attributes:
        limits: of its connection.
        address_of: returns the address of the client that made a request, for its limits; None if it has none.
        shared_with: returns the origin of a foreign page that may read the answer to its request, or None.
        refused: called with each refusal before it is said; returns the one that the client gets.
    """

    limits: Limits
    address_of: Callable[[Request], str | None] = lambda _request: None
    shared_with: Callable[[Request], str | None] = lambda _request: None
    refused: Callable[[Exchange, Refusal], Refusal] = lambda _exchange, refusal: refusal

class Exchange:
    """One HTTP request and its answer.

    Args:
        wire: the connection.
        http: h11's state of the connection.
        rules: those of its port.
        counted: left when the WebSocket that the request asks for is closed, or when the request becomes none.
        last: returns whether the connection ends with this answer in any case.

    Attributes:
        peer: the address of the connection's other end.
        request: its head; known once `read_head` has returned, as the next two are.
        address: that of the client, for its limits; None if it has none.
        shared_with: the origin of a foreign page that may read the answer, or None.
        handshake: that of the WebSocket that the request asks for, once `upgrade` was called.
        conversation: what the request has opened, or None.
    """

    request: Request

    def __init__(
        self, wire: WireStream, http: h11.Connection, rules: PortRules, counted: ExitStack, last: Callable[[], bool]
    ) -> None:
        self.peer = wire.peer
        self.address: str | None = None
        self.shared_with: str | None = None
        self.handshake: Handshake | None = None
        self.conversation: Conversation | None = None
        self._limits = rules.limits
        self._wire, self._http, self._rules, self._counted, self._last = wire, http, rules, counted, last
        self._method = b""
        self._half_end = b""  # the CR of a line's end, if h11 has parsed it without the LF
        self._whole = False  # whether the request was read to its end
        self._refused_inside = False
        self._messages: MessageChannel | None = None

    # ---- the request --------------------------------------------------------------------------------------------------

    async def read_head(self, until: float, seconds: float) -> None:
        """Read the head, at the latest `until`, a time of `run_time`: the end of its `seconds`. Raises Refused."""
        with patient_until(until) as phase:
            head = await self._event()
        if phase.cancelled_caught:
            raise Refused(Refusal("request_timeout", f"the request was not complete after {seconds:g} s"))
        assert isinstance(head, h11.Request)
        if head.http_version not in (b"1.0", b"1.1"):
            raise Refused(Refusal("bad_request", "only HTTP/1.1 is spoken here"))
        self.request = request = parse_head(head, self.peer)
        self.address = self._rules.address_of(request)
        if request.header("origin") is not None:
            self.shared_with = self._rules.shared_with(request)

    async def read_body(self) -> bytes:
        """Read the whole body. Raises Refused (400, 408, 413)."""
        limit, body = self._limits.http_body, bytearray()
        too_long = int(self.request.header("content-length") or 0) > limit  # h11 has checked that it is a number
        with self.within("request_timeout", f"the request was not complete after {self._limits.handshake:g} s"):
            while not too_long and isinstance(event := await self._event(), h11.Data):
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
                event = await self._event(min(left, _PIECE) or None)
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

    async def _event(self, piece: int | None = None) -> h11.Event:
        """Return h11's next event. Raises Refused for bytes that are not HTTP.

        At most `piece` bytes are read at once; all of them must belong to this message. The default is the room that is left
        for a head.
        """
        while True:
            before = self._http.trailing_data[0]
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                too_large = error.error_status_hint == REFUSALS["head_too_large"].status
                why = f"not a request of HTTP/1.1: {error}"
                raise Refused(Refusal("head_too_large" if too_large else "bad_request", why)) from None
            if isinstance(event, h11.Request):
                self._method = event.method
            parsed = before[: len(before) - len(self._http.trailing_data[0])]
            of_head = isinstance(event, h11.Request | h11.EndOfMessage)  # or of a trailer
            if of_head and _NOT_STRICT.search(self._half_end + parsed):
                raise Refused(Refusal("bad_request", "each line of a head must end with CR and LF, and none may be folded"))
            if parsed:
                self._half_end = b"\r" if parsed.endswith(b"\r") else b""
            if isinstance(event, h11.Event):
                self._whole = isinstance(event, h11.EndOfMessage)
                return event
            assert event is h11.NEED_DATA  # h11 returns PAUSED only after the end of a message
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await self._wire.send_all(self._http.send(go_on))
            room = piece or self._limits.http_head - len(self._http.trailing_data[0])
            self._http.receive_data(await self._wire.receive_some(room))

    # ---- the answer ---------------------------------------------------------------------------------------------------

    async def answer(self, response: Response) -> None:
        """Send the response. The connection may go on if the request was read to its end, and was not for a WebSocket."""
        await self._send(response, keep_alive=self.handshake is None)

    async def refuse(self, refusal: Refusal) -> None:
        """Say to the client that it is refused: by HTTP, or in its WebSocket by `reactor.bye` or a close frame alone.

        It gets `reactor.bye` if it asks for that. Raises PeerGone if the client has its WebSocket already and has left.
        """
        refusal = self._rules.refused(self, refusal)
        if self._messages is not None:
            await refuse_inside(self._messages, refusal, bye=wants_bye(self.request))
        elif self.handshake is not None and wants_bye(self.request):
            self._refused_inside = True
            await self._wire.send_all(accepted_and_refused(self.handshake, refusal))
        else:
            goes_on = self.handshake is None and not refusal.kind.ends_connection
            await self._send(Response.refusing(refusal), keep_alive=goes_on)

    def upgrade(self, handshake: Handshake, counted: AbstractContextManager[None]) -> None:
        """Take the request for one of a WebSocket. From here on a refusal may go into that.

        `counted` is entered now, and left when the WebSocket is closed or the request becomes none.
        """
        self._counted.enter_context(counted)
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
        self._counted.close()  # it becomes no WebSocket
        shared = {} if self.shared_with is None else {"access-control-allow-origin": self.shared_with, "vary": "Origin"}
        if shared and REFUSAL_HEADER in response.headers:  # a script reads why, and when it may try again
            shared["access-control-expose-headers"] = f"{REFUSAL_HEADER}, retry-after"
        headers = shared | response_headers(response)
        if not (keep_alive and self._whole) or self._last():
            headers["connection"] = ", ".join(filter(None, (headers.get("connection"), "close")))
        reason = HTTPStatus(response.status).phrase
        head = self._http.send(h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason))
        body = b"" if self._method == b"HEAD" else response.body
        self._http.send(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        logger.debug("%s: answered %d", self.peer, response.status)
        await self._wire.send_parts(head, body)

    # ---- its connection -----------------------------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """Whether the connection takes another request."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def linger(self) -> None:
        """End the connection so that the client gets the answer; one that was to send a body may do so for a while."""
        seconds = 1.0 if self._method in (b"", b"GET", b"HEAD") else 5.0  # a browser reads the answer after its body
        await self._wire.linger(seconds, until_answered=self._refused_inside)
