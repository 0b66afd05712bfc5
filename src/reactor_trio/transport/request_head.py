"""From the head of a request, as h11 has parsed it, to a `Request`; what has two readings, or none, is refused."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

import h11

from reactor_trio.protocol.refusals import Refusal, Refused
from reactor_trio.transport.request import Request

_MAX_FIELDS = 64
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9a-f:.%]+)\]|(?P<name>[^\s:/?#@\[\]]+))(?::[0-9]*)?")
_ABSOLUTE = re.compile(r"https?://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


def parse_head(head: h11.Request, peer: str) -> Request:
    """Make a `Request`. Raises Refused if target, query, Host or Expect is invalid, or the length has two readings."""
    names = {name for name, _ in head.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or head.http_version != b"1.1"):
        raise Refused(Refusal("bad_request", "a body has a Content-Length or, in HTTP/1.1, chunks; never both"))
    headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers)
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
