"""HTTP/1.1 on one connection, up to the WebSocket that most connections become.

h11 parses and keeps the protocol's state. This module has the loop around h11, and the limits. A connection waits in these
ways, each with its own limit: for the first byte of a request (idle), for the rest of the request (handshake), for the site
to admit a WebSocket (handshake, then 503), for its opening (handshake), and for the client to take the response (stall). A
body that the site streams has limits of its own (body_time, stall). A request that cannot be served is answered with one
line of text, and the connection is closed. So no byte of a request that we did not understand is taken for the next one.

h11 accepts more than the standard's own grammar, and a proxy in front may read the same bytes differently: what one of them
reads as a body the other reads as a second request (*request smuggling*). So a request with two readings is refused (400)
and its connection closed: a request with Content-Length and Transfer-Encoding, and one whose head or trailer has a line that
ends without CR or is folded (RFC 9112, sections 2.2, 5.2 and 6.3). An `Expect` that h11 would ignore is refused, too (417).

The checks come in this order:

1. the head (431, 408, 400, 417), Host (421), and the number of requests (429);
2. a CORS preflight for an origin that may read the response is answered (200), and the request is done;
3. the method (405);
4. unless it is GET or HEAD: Origin (403), then `Site.take_body`;
5. the body (413);
6. for a WebSocket: the path (404), the handshake (400, 426), Origin (403), and `Site.admit`. A client that asked for it
   learns the refusal of `Site.admit` inside its WebSocket (`refusal_bye`).
"""

from __future__ import annotations

import logging
import math
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager, suppress
from http import HTTPStatus

import h11
import trio
from msgspec.structs import replace

from reactor_trio.concurrency.lost_time import patient, patient_until, run_time
from reactor_trio.protocol.refusals import REFUSAL_HEADER, REFUSALS, RefusalCode
from reactor_trio.transport.cors import cors_headers, is_preflight, preflight_answer
from reactor_trio.transport.refusal_bye import accepted_and_refused, wants_bye
from reactor_trio.transport.request_head import parse_head
from reactor_trio.transport.site import BodyTaker, Conversation, Refused, Request, Response, Site
from reactor_trio.transport.upgrade import STANDARD_HEADERS, UPGRADE_HEADERS, Handshake, check_handshake, wants_websocket
from reactor_trio.transport.wire_stream import WireStream

logger = logging.getLogger(__name__)

_LINGER = 1.0
_LINGER_BODY = 5.0  # a browser reads the response only after it has sent its body, or has failed to send it
_PIECE = 64 * 1024
_MAX_LOGGED = 200  # characters of an Origin header in the log
_NOT_STRICT = re.compile(rb"(?<!\r)\n|\n[ \t]")


async def serve_http(
    stream: trio.abc.Stream,
    site: Site,
    *,
    closing: trio.Event,
    refused: Callable[[str, Response], object] = lambda _peer, _response: None,
) -> None:
    """Serve one connection until it ends. This function owns `stream` and closes it, also when cancelled.

    Args:
        stream: a connected byte stream, TCP or any other.
        site: answers the requests.
        closing: set when the server stops. Idle connections are then closed at once, others after their response. A
            WebSocket goes on until its conversation ends.
        refused: called for each refused request with the client's address, for a refused Origin also that, and the response.

    Client errors are never raised. An exception of a conversation closes the WebSocket with 1011 and is raised in a group.
    """
    wire = WireStream(stream, stall=site.limits.stall)
    try:
        if (admitted := await _Connection(wire, site, closing, refused).serve()) is not None:
            from reactor_trio.transport.websocket import serve_websocket  # late, so that the server listens sooner

            await serve_websocket(wire, *admitted, site.limits)
    finally:
        await wire.abandon()


async def turn_away(stream: trio.abc.Stream, code: RefusalCode, why: str) -> None:
    """Refuse a connection without reading its request, and close it. Takes at most 1 s."""
    status, body = HTTPStatus(REFUSALS[code].status), f"{why}\n".encode()
    lines = {
        "content-length": str(len(body)), "retry-after": "1", "connection": "close", REFUSAL_HEADER: code,
        **STANDARD_HEADERS,
    }  # fmt: skip
    head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    wire = WireStream(stream)
    with trio.move_on_after(_LINGER), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await wire.send_all(head.encode() + body)
        await wire.linger(_LINGER)
    await wire.abandon()


class _Connection:
    """The loop over the requests of one connection; made and run by `serve_http`."""

    def __init__(
        self, wire: WireStream, site: Site, closing: trio.Event, refused: Callable[[str, Response], object]
    ) -> None:
        self._refused = refused
        self._wire = wire
        self._site = site
        self._limits = site.limits
        self._closing = closing
        self._kept_alive = False  # the first request of a connection is answered even while the server stops
        self._head_only = False
        self._cors: Mapping[str, str] = {}
        self._linger = _LINGER
        self._awaits_close = False  # a WebSocket's close frame was sent
        #: the present request, if a refusal of it goes into its WebSocket
        self._refused_inside: tuple[Request, Handshake] | None = None
        self._counted = ExitStack()  # a refused WebSocket, until it is closed
        self._complete_by = math.inf  # when the current request must be complete
        # h11 raises if its buffer is longer than this and holds no whole head, and `_event` never reads beyond it. So a head
        # of exactly the limit passes and a longer one does not, however it was cut into segments.
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=site.limits.http_head - 1)

    async def serve(self) -> tuple[Handshake, Conversation] | None:
        """Answer requests until the connection ends (None) or becomes a WebSocket."""
        idle_until = self._complete_by = run_time() + self._limits.handshake
        try:
            with self._counted:
                while await self._wait_for_bytes(idle_until):
                    self._complete_by = min(self._complete_by, run_time() + self._limits.handshake)
                    admitted = await self._serve_one()
                    if admitted is not None:
                        self._wire.push_back(self._h11.trailing_data[0])
                        return admitted
                    if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                        await self._wire.linger(self._linger, until_answered=self._awaits_close)
                        break
                    self._h11.start_next_cycle()
                    self._kept_alive = True
                    idle_until, self._complete_by = run_time() + self._limits.idle, math.inf
        except* (trio.BrokenResourceError, trio.ClosedResourceError) as group:
            error = group.exceptions[0]
            logger.debug("%s: %s", self._wire.peer, str(error) or error.__cause__ or "the connection broke")
        return None

    async def _wait_for_bytes(self, until: float) -> bool:
        """Wait until a request begins. Return False if the connection ends, idles too long, or the server stops."""
        if self._h11.trailing_data[0]:
            return True
        data = b""
        with patient_until(until):
            async with trio.open_nursery() as nursery:
                if self._kept_alive:
                    nursery.start_soon(self._stop_idling, nursery.cancel_scope)
                data = await self._wire.receive_some(self._limits.http_head)
                nursery.cancel_scope.cancel()
        self._h11.receive_data(data)
        return bool(data)

    async def _stop_idling(self, idling: trio.CancelScope) -> None:
        """Task: when the server stops, end the wait for a next request."""
        await self._closing.wait()
        idling.cancel()

    async def _serve_one(self) -> tuple[Handshake, Conversation] | None:
        """Receive and answer one request. A WebSocket handshake is not answered but returned, with its conversation."""
        self._head_only, self._cors, self._linger, self._refused_inside = False, {}, _LINGER, None
        try:
            with patient_until(self._complete_by) as patience:
                request, taker = await self._receive_request()
            if patience.cancelled_caught:
                raise Refused.because("request_timeout", f"the request was not complete after {self._limits.handshake:g} s")
            with self._errors_answered(request):
                if taker is None:
                    answer = await self._decide(request)
                else:
                    body_until = run_time() + self._limits.body_time
                    async with aclosing(self._stream_body(request, body_until)) as body:
                        answer = await taker(body)
        except Refused as refused:
            self._note(refused.response, refused.client)
            await self._refuse(refused.response)
            return None
        if isinstance(answer, tuple):
            return answer
        if answer.refusal is not None:
            self._note(answer)
        await self._send(answer, keep_alive=not self._closing.is_set() and self._h11.their_state is not h11.SEND_BODY)
        return None

    def _note(self, refusal: Response, client: str = "") -> None:
        self._refused(f"{self._wire.peer}, {client}," if client else self._wire.peer, refusal)

    async def _decide(self, request: Request) -> Response | tuple[Handshake, Conversation]:
        if self._cors and is_preflight(request):
            return preflight_answer()
        if not wants_websocket(request):
            if request.path in self._site.websockets and request.method == "GET":
                raise Refused.because("upgrade_required", f"{request.path} is a WebSocket", UPGRADE_HEADERS)
            return self._site.respond(request)
        version = self._h11.their_http_version or b""
        handshake = check_handshake(request, version.decode(), self._site.websockets)
        self._check_origin(request, "connect here")
        if wants_bye(request):
            self._refused_inside = request, handshake
        with patient(trio.move_on_after(self._limits.handshake)):
            admitted = await self._site.admit(request)
            if isinstance(admitted, Response):
                raise Refused(admitted)
            return handshake, admitted
        undecided = f"the server did not decide within {self._limits.handshake:g} s whether to take you; try again"
        raise Refused.because("not_decided", undecided, {"retry-after": "1"})

    async def _refuse(self, refusal: Response) -> None:
        """Answer a request that cannot be served. After that the connection ends."""
        if self._refused_inside is not None and refusal.status >= 400:
            request, handshake = self._refused_inside
            if self._counted.enter_context(self._site.refused_socket(request)):
                self._awaits_close = True
                await self._wire.send_all(accepted_and_refused(handshake, refusal))
                return
        await self._send(refusal, keep_alive=False)

    def _check_origin(self, request: Request, what: str) -> None:
        origins = request.header_values("origin")
        if len(origins) > 1 or not self._site.origin_allowed(origins[0] if origins else None, request):
            page = f"a page of {', '.join(origins) or 'no origin'}"
            # The client chose these bytes, and a terminal may show the log.
            logged = page.encode("ascii", "backslashreplace").decode()[:_MAX_LOGGED]
            raise Refused.because("wrong_origin", f"{page} may not {what}", client=logged)

    @contextmanager
    def _errors_answered(self, request: Request) -> Iterator[None]:
        try:
            yield
        except (Refused, trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception:
            logger.exception("%s: %s %s failed", self._wire.peer, request.method, request.path)
            raise Refused.because("internal", "internal error") from None

    async def _receive_request(self) -> tuple[Request, BodyTaker | None]:
        head = await self._event()
        assert isinstance(head, h11.Request)
        if head.http_version not in (b"1.0", b"1.1"):
            raise Refused.because("bad_request", "only HTTP/1.1 is spoken here")
        request = parse_head(head, self._wire.peer)
        has_body = request.method not in ("GET", "HEAD")
        if request.authority and not self._site.hosts_allowed(request.host):
            raise Refused.because(
                "wrong_host", f"this server does not answer for the host {request.host}; if it is this server's own, start "
                f"it with --allow-host {shlex.quote(request.host)}, or list it in runtime.hosts",
            )  # fmt: skip
        self._cors = cors_headers(self._site.shared_with(request))
        self._linger = _LINGER_BODY if has_body else _LINGER
        if (too_many := self._site.over_limit(request)) is not None:
            raise Refused(too_many)
        if not (self._cors and is_preflight(request)):
            if request.method not in self._site.methods:
                allowed = {"allow": ", ".join(self._site.methods)}
                raise Refused.because("method_not_allowed", f"{request.method} is not allowed", allowed)
            if has_body:
                self._check_origin(request, "send this")
                with self._errors_answered(request):
                    if (taker := self._site.take_body(request)) is not None:
                        return request, taker
        body = await self._receive_body(request)
        return (replace(request, body=body) if has_body else request), None

    async def _receive_body(self, request: Request) -> bytes:
        limit, body = self._limits.http_body, bytearray()
        too_long = int(request.header("content-length") or 0) > limit  # h11 has checked that it is a number
        while not too_long:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage):
                return bytes(body)
            assert isinstance(event, h11.Data)
            body += event.data
            too_long = len(body) > limit
        raise Refused.because("too_large", f"a body may have {limit} bytes")

    async def _stream_body(self, request: Request, deadline: float) -> AsyncGenerator[bytes]:
        """Yield the pieces of a body as they arrive, none empty: each within the stall limit, all of them by `deadline`.

        Raises Refused: 408 if the client takes too long, 400 if the client ends the connection in the middle of the body.
        """
        left = int(request.header("content-length") or 0)  # 0 for a chunked body, which is read in small pieces
        while True:
            stalled_at = run_time() + self._limits.stall
            with patient_until(min(deadline, stalled_at)) as patience:
                event = await self._event(min(left, _PIECE) or None)
            if patience.cancelled_caught and stalled_at < deadline:
                raise Refused.because("request_timeout", f"no byte of the body came for {self._limits.stall:g} s")
            if patience.cancelled_caught:
                raise Refused.because("request_timeout", f"the body was not complete after {self._limits.body_time:g} s")
            if not isinstance(event, h11.Data):
                return
            left = max(0, left - len(event.data))
            yield bytes(event.data)

    async def _event(self, piece: int | None = None) -> h11.Event:
        """Return h11's next event. Raises Refused for bytes that are not HTTP.

        At most `piece` bytes are read at once; all of them must belong to this message. The default is the room that is left
        for a head.
        """
        while True:
            before = self._h11.trailing_data[0]
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                too_large = error.error_status_hint == REFUSALS["head_too_large"].status
                code: RefusalCode = "head_too_large" if too_large else "bad_request"
                raise Refused.because(code, f"not a request of HTTP/1.1: {error}") from None
            if isinstance(event, h11.Request):
                self._head_only = event.method == b"HEAD"
            if isinstance(event, h11.Request | h11.EndOfMessage):  # h11 has just parsed a head or a trailer
                lines = before[: len(before) - len(self._h11.trailing_data[0])]
                if _NOT_STRICT.search(lines):
                    why = "each line of a head must end with CR and LF, and none may be folded"
                    raise Refused.because("bad_request", why)
            if isinstance(event, h11.Event):
                return event
            assert event is h11.NEED_DATA  # h11 returns PAUSED only after the end of a message
            if self._h11.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await self._wire.send_all(self._h11.send(go_on))
            room = piece or self._limits.http_head - len(self._h11.trailing_data[0])
            self._h11.receive_data(await self._wire.receive_some(room))

    async def _send(self, response: Response, *, keep_alive: bool) -> None:
        headers = {
            "content-type": response.content_type,
            "content-length": str(len(response.body)),
            **STANDARD_HEADERS,
            **self._cors,
            **response.headers,
        }
        if response.refusal is not None:
            headers[REFUSAL_HEADER] = response.refusal
        if not keep_alive:
            headers["connection"] = ", ".join(filter(None, (headers.get("connection"), "close")))
        reason = HTTPStatus(response.status).phrase
        head = self._h11.send(h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason))
        body = b"" if self._head_only else response.body
        self._h11.send(h11.Data(data=body))
        self._h11.send(h11.EndOfMessage())
        logger.debug("%s: answered %d", self._wire.peer, response.status)
        await self._wire.send_parts(head, body)
