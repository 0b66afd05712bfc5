"""Which pages of other origins may read an answer: the server's part of CORS (Fetch standard, section 3.3).

A browser asks before it sends what a plain form could not (*preflight*: OPTIONS with `Access-Control-Request-Method`), and
shows a page only answers that name its origin. No cookie is meant: what may be done here is in the headers that are listed.
"""

from __future__ import annotations

from collections.abc import Mapping

from reactor_trio.transport.site import Request, Response

#: seconds for which a browser need not ask again
_MAX_AGE = 600


def sharing_headers(origin: str | None) -> Mapping[str, str]:
    """What lets pages of `origin` read an answer; nothing for None."""
    return {} if origin is None else {"access-control-allow-origin": origin, "vary": "Origin"}


def is_preflight(request: Request) -> bool:
    """Whether a browser asks what a page may send."""
    return request.method == "OPTIONS" and request.header("access-control-request-method") is not None


def preflight_answer() -> Response:
    """It may post, with a token and a type."""
    return Response(200, "text/plain; charset=utf-8", b"", {
        "access-control-allow-methods": "POST", "access-control-allow-headers": "authorization, content-type",
        "access-control-max-age": str(_MAX_AGE),
    })  # fmt: skip
