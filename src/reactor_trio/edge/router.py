"""`Router`: which paths a site has, and what answers each method at each of them.

What the site says of its paths comes from the list of its routes: 404 and 405 with their texts, `Allow`, the WebSockets, and
the paths that pages of other origins may read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reactor_trio.transport import BodyTaker, Refused, Request, Response

_READS = ("GET", "HEAD")
_ORDER = (*_READS, "POST", "DELETE")


@dataclass(frozen=True)
class Route:
    """One path of a site. If its last part is `ID`, that stands for any name.

    Args:
        path: as in the request.
        get: answers GET and HEAD. Raises Refused, Denied.
        post: returns what reads the body of a POST. Raises Refused, Denied.
        delete: answers a DELETE. Raises Refused, Denied.
        websocket: whether clients open WebSockets here.
        shared: whether pages of the manifest's origins may read the responses.
    """

    path: str
    get: Callable[[Request], Response] | None = None
    post: Callable[[Request], BodyTaker] | None = None
    delete: Callable[[Request], Response] | None = None
    websocket: bool = False
    shared: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it takes, in the order of `Allow`."""
        found = (*(_READS if self.get or self.websocket else ()), *(("POST",) if self.post else ()))
        return (*found, *(("DELETE",) if self.delete else ()))

    def has(self, path: str) -> bool:
        """Whether a request for `path` is for this route."""
        folder, _, last = self.path.rpartition("/")
        return path == self.path or (last == "ID" and bool(part_of(path, folder)))


def part_of(path: str, folder: str) -> str:
    """The one part of `path` below `folder`; empty if it has another form."""
    above, _, last = path.rpartition("/")
    return last if above == folder and len(last) <= 64 and last.replace("-", "").replace("_", "").isalnum() else ""


class Router:
    """The routes of one site, besides the viewer page's."""

    def __init__(self, *routes: Route) -> None:
        self._routes = routes
        self.methods: Sequence[str] = [method for method in _ORDER if any(method in route.methods for route in routes)]
        self.websockets: Sequence[str] = [route.path for route in routes if route.websocket]
        self.shared: Sequence[str] = [route.path for route in routes if route.shared]

    def answer(self, request: Request) -> Response:
        """Answer a GET, HEAD or DELETE by its route, or with 404 or 405. Raises what the route raises."""
        route = self._find(request)
        if route is None and request.method in _READS:
            return Response.refusing("not_found", f"not found; there are {self._listed()}")
        handler = None if route is None else route.delete if request.method == "DELETE" else route.get
        return self._not_allowed(request, route) if handler is None else handler(request)

    def body_taker(self, request: Request) -> BodyTaker | None:
        """What reads the body of a POST as a stream; None for a DELETE. Raises Refused: 405, also without a route."""
        route = self._find(request)
        if request.method == "POST" and route is not None and route.post is not None:
            return route.post(request)
        if request.method == "DELETE" and route is not None and route.delete is not None:
            return None
        raise Refused(self._not_allowed(request, route))

    def _find(self, request: Request) -> Route | None:
        return next((route for route in self._routes if route.has(request.path)), None)

    def _not_allowed(self, request: Request, route: Route | None) -> Response:
        allowed = _READS if route is None else route.methods  # the page's paths are no routes
        why = f"{request.path} takes {' and '.join(allowed)}, not {request.method}"
        return Response.refusing("method_not_allowed", why, {"allow": ", ".join(allowed)})

    def _listed(self) -> str:
        paths = ["/", *(route.path for route in self._routes if not route.websocket)]
        sockets = f"the WebSocket{'s' if len(self.websockets) > 1 else ''} {' and '.join(self.websockets)}"
        return ", ".join(paths) + (f" and {sockets}" if self.websockets else "")
