"""Why an HTTP request was refused, as one line, and whether to ask again: a server's own words, or a proxy's status."""

from __future__ import annotations

from http.client import responses
from typing import Any, cast

import msgspec

from reactor_trio.errors import ConnectionRefused
from reactor_trio.plain_text import one_line
from reactor_trio.protocol.refusals import REFUSAL_CODES, REFUSALS, RefusalCode, Retry

#: Most characters of a text that another program sent.
LONGEST = 1000

_PROXY = "a proxy in front of the server"
_MOVED = f"{_PROXY} sends clients to another address; it may want wss:// (https://)"
_MEANINGS = {
    301: _MOVED, 302: _MOVED, 307: _MOVED, 308: _MOVED,
    401: f"{_PROXY} wants credentials of its own",
    403: f"{_PROXY} forbids this request",
    404: f"the program that answers here, perhaps {_PROXY}, does not know this address",
    408: f"{_PROXY} waited too long for the request",
    411: f"{_PROXY} takes no request without its size (Content-Length)",
    413: f"{_PROXY} refuses files of this size",
    429: f"{_PROXY} refuses so many requests",
    502: f"{_PROXY} cannot reach it; does the server run?",
    503: f"{_PROXY} knows no server that is ready",
    504: f"{_PROXY} got no answer from it in time",
}  # fmt: skip

#: What may let a client in after the answer of a proxy, which has no code, by its status.
_RETRIES_OF_PROXIES: dict[int, Retry] = {
    401: "credential", 403: "credential", 408: "later", 429: "later", 502: "later", 503: "later", 504: "later"
}  # fmt: skip


def retry_of(refused: ConnectionRefused) -> Retry | None:
    """Return what may let the refused client in: the code's row in `REFUSALS`, or for a proxy its status; None: nothing."""
    if refused.code is None:
        return _RETRIES_OF_PROXIES.get(refused.status)
    return REFUSALS[cast("RefusalCode", refused.code)].retry


def known_code(given: str | bytes | None) -> str | None:
    """Return the code of a refusal as a server sent it; None for what no server of this project sends."""
    text = given.decode("ascii", "replace") if isinstance(given, bytes) else given
    return text if text in REFUSAL_CODES else None


def refusal_reason(status: int, body: bytes | bytearray) -> tuple[str, bool]:
    """Return why a request was refused, in one line without control characters, and whether the server's text says so.

    A server of this project answers with a line of text. An answer without a text, and a page of HTML, are a proxy's.
    """
    text = one_line(body.decode("utf-8", "replace"))
    if text and not text.startswith("<"):
        return one_line(_field(body) or text)[:LONGEST], True
    named = responses.get(status, "an unknown status")
    return _MEANINGS.get(status, f"{_PROXY}, or another program, answered {named}"), False


def _field(body: bytes | bytearray) -> str | None:
    """The text in a JSON object, with which some proxies answer."""
    try:
        answer: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    found = (answer.get("message") or answer.get("error")) if isinstance(answer, dict) else None
    return found if isinstance(found, str) else None
