"""`RequestReader`: reads the requests of one connection, one after another, with h11.

h11 accepts more than the standard's own grammar, and a proxy in front may read the same bytes differently: what one of them
reads as a body the other reads as a second request (*request smuggling*). So a request with two readings is refused (400)
and its connection closed: a request with Content-Length and Transfer-Encoding, and one whose head or trailer has a line that
ends without CR or is folded (RFC 9112, sections 2.2, 5.2 and 6.3). An `Expect` that h11 would ignore is refused, too (417).
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

import h11

from reactor_trio.concurrency.lost_time import patient_until
from reactor_trio.protocol.refusals import REFUSALS, Refusal, Refused
from reactor_trio.transport.request import Headers, Limits, Request
from reactor_trio.transport.wire_stream import WireStream

_MAX_FIELDS = 64
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9a-f:.%]+)\]|(?P<name>[^\s:/?#@\[\]]+))(?::[0-9]*)?")
_ABSOLUTE = re.compile(r"https?://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_NOT_STRICT = re.compile(rb"(?<!\r)\n|\n[ \t]")
_LINGER, _LINGER_OF_BODY = 1.0, 5.0


class RequestReader:
    """Reads the requests of one connection.

    Attributes:
        wire: the connection.
        http: h11's state of it. `Exchange` writes the answers with it.
        method: that of the newest request, also of one that is refused; b"" if h11 could not parse its head.
        headers: the same; none if h11 could not parse its head.
        whole: whether the newest request was read to its end.
    """

    def __init__(self, wire: WireStream, limits: Limits) -> None:
        self.wire = wire
        # h11 raises if its buffer is longer than this and holds no whole head, and `event` never reads beyond it. So a
        # head of exactly the limit passes and a longer one does not, however it was cut into segments.
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.http_head - 1)
        self.method = b""
        self.headers: Headers = ()
        self.whole = False
        self._longest_head = limits.http_head
        self._half_end = b""  # the CR of a line's end, if h11 has parsed it without the LF

    async def request(self, until: float, seconds: float) -> Request:
        """Read the next head, at the latest `until`, a time of `run_time`: the end of its `seconds`. Raises Refused."""
        self.method, self.headers, self.whole, self._half_end = b"", (), False, b""
        with patient_until(until) as phase:
            head = await self.event()
        if phase.cancelled_caught:
            raise Refused(Refusal("request_timeout", f"the request was not complete after {seconds:g} s"))
        assert isinstance(head, h11.Request)
        if head.http_version not in (b"1.0", b"1.1"):
            raise Refused(Refusal("bad_request", "only HTTP/1.1 is spoken here"))
        return parse_head(head, self.headers, self.wire.peer)

    async def event(self, piece: int | None = None) -> h11.Event:
        """Return h11's next event. Raises Refused for bytes that are not HTTP.

        At most `piece` bytes are read at once; all of them must belong to this message. The default is the room that is left
        for a head.
        """
        while True:
            before = self.http.trailing_data[0]
            try:
                event = self.http.next_event()
            except h11.RemoteProtocolError as error:
                too_large = error.error_status_hint == REFUSALS["head_too_large"].status
                why = f"not a request of HTTP/1.1: {error}"
                raise Refused(Refusal("head_too_large" if too_large else "bad_request", why)) from None
            if isinstance(event, h11.Request):
                self.method = event.method
                self.headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
            parsed = before[: len(before) - len(self.http.trailing_data[0])]
            of_head = isinstance(event, h11.Request | h11.EndOfMessage)  # or of a trailer
            if of_head and _NOT_STRICT.search(self._half_end + parsed):
                raise Refused(Refusal("bad_request", "each line of a head must end with CR and LF, and none may be folded"))
            if parsed:
                self._half_end = b"\r" if parsed.endswith(b"\r") else b""
            if isinstance(event, h11.Event):
                self.whole = isinstance(event, h11.EndOfMessage)
                return event
            assert event is h11.NEED_DATA  # h11 returns PAUSED only after the end of a message
            if self.http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await self.wire.send_all(self.http.send(go_on))
            room = piece or self._longest_head - len(self.http.trailing_data[0])
            self.http.receive_data(await self.wire.receive_some(room))

    @property
    def goes_on(self) -> bool:
        """Whether the connection takes another request."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    async def linger(self, *, until_answered: bool) -> None:
        """End the connection so that the client gets the answer: the system destroys it if the client still sends.

        A client that was to send a body may do so for a while. `until_answered` as in `WireStream.linger`.
        """
        seconds = _LINGER if self.method in (b"", b"GET", b"HEAD") else _LINGER_OF_BODY  # a browser reads after its body
        await self.wire.linger(seconds, until_answered=until_answered)


def parse_head(head: h11.Request, headers: Headers, peer: str) -> Request:
    """Make a `Request` of a head with these headers.

    Raises Refused if target, query, Host or Expect is invalid, or the length has two readings.
    """
    names = {name for name, _ in head.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or head.http_version != b"1.1"):
        raise Refused(Refusal("bad_request", "a body has a Content-Length or, in HTTP/1.1, chunks; never both"))
    target = head.target.decode("ascii")
    authority = next((value for name, value in headers if name == "host"), "")
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is not None:  # the target's authority counts, not the Host header (RFC 9112, section 3.2.2)
        authority, target = absolute["authority"], absolute["rest"]
        target = target if target.startswith("/") else f"/{target}"
    authority = authority.lower()
    host = _AUTHORITY.fullmatch(authority)
    if host is None and (authority or absolute is not None or head.http_version == b"1.1"):
        raise Refused(Refusal("bad_request", "the request names no valid host"))
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise Refused(Refusal("bad_request", f"not a path: {path}"))
    try:
        strict = bool(query)  # strict parsing refuses an empty query
        fields = parse_qsl(query, keep_blank_values=True, strict_parsing=strict, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Refused(Refusal("bad_request", f"the query cannot be read: {error}")) from None
    request = Request(
        method=head.method.decode("ascii"),
        path=path,
        query=dict(reversed(fields)),  # if a name is repeated, its first value comes last here and stays
        host="" if host is None else host["v6"] or host["name"],
        authority=authority,
        headers=headers,
        peer=peer,
        version=head.http_version.decode("ascii"),
    )
    if any(what.lower() != "100-continue" for what in request.tokens("expect")):
        raise Refused(Refusal("expectation_failed", "nothing but Expect: 100-continue is understood"))
    return request
