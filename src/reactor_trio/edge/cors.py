"""The server's part of CORS (Fetch standard, section 3.3): which pages of other origins may read a response.

Before a request that a plain HTML form could not send, a browser asks the server for permission (*preflight*: OPTIONS with
`Access-Control-Request-Method`). A page may read only responses that name its origin. No header allows credentials, so
browsers hide responses to requests with cookies.
"""

from __future__ import annotations

from reactor_trio.edge.request_policy import RequestPolicy
from reactor_trio.edge.router import Router
from reactor_trio.transport.request import Request, Response

#: Seconds for which a browser may remember the answer to a preflight.
_MAX_AGE = 600


class SharedResponses:
    """The responses of one port that pages of other origins may read: those of its shared routes."""

    def __init__(self, router: Router, policy: RequestPolicy) -> None:
        self._router = router
        self._policy = policy

    def reader(self, request: Request) -> str | None:
        """Return the origin of the page that may read the answer to `request`; None if no foreign page may."""
        if (origin := self._policy.listed_origin(request)) is None or not self._policy.takes_host(request):
            return None
        method = request.header("access-control-request-method") if is_preflight(request) else request.method
        shared = any(route.shared and method in route.methods for route in self._router.at(request.path))
        return origin if shared else None


def is_preflight(request: Request) -> bool:
    """Return whether `request` is a CORS preflight."""
    return request.method == "OPTIONS" and request.header("access-control-request-method") is not None


def preflight_answer() -> Response:
    """Return the answer to a preflight: POST is allowed, with the headers Authorization and Content-Type."""
    return Response(200, "text/plain; charset=utf-8", b"", {
        "access-control-allow-methods": "POST", "access-control-allow-headers": "authorization, content-type",
        "access-control-max-age": str(_MAX_AGE),
    })  # fmt: skip
