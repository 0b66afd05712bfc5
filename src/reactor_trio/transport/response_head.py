"""Heads of responses: the headers that every response has, and the bytes of a head that we send without h11."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from reactor_trio.transport.request import Response

#: Headers of every response, also of the 101 that accepts a handshake. Because of them browsers name no URL of ours to other
#: sites: a URL may contain a token.
STANDARD_HEADERS = {"cache-control": "no-cache", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}


def response_headers(response: Response) -> dict[str, str]:
    """Return all headers of a response, but for those that its connection and its site add."""
    size = str(len(response.body))
    return {"content-type": response.content_type, "content-length": size, **STANDARD_HEADERS, **response.headers}


def head_bytes(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the head of a response."""
    known = HTTPStatus(status)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {known} {known.phrase}\r\n{lines}\r\n".encode()
