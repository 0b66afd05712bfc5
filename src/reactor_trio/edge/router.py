"""`Route` and `Router`: which paths a site has, what each is for, and what answers there.

What the site says of its paths comes from the list of its routes: 404 and 405 with their texts, `Allow`, the WebSockets, and
which responses pages of other origins may read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from reactor_trio.edge.grants import Credentials, Grant
from reactor_trio.edge.request_metrics import LimitKind
from reactor_trio.transport import Conversation, Exchange, Refusal, Refused, Request, Response

READS = ("GET", "HEAD")
_METHODS = (*READS, "POST", "DELETE")
#: Answers a request, or opens its WebSocket. Raises Refused.
Handler = Callable[[Exchange, Grant], Awaitable[Response | Conversation]]


@dataclass(frozen=True)
class Route:
    """What answers one method of a path. If its last part is `ID`, that stands for any name; if it is `*`, for anything.

    Args:
        path: as in the request.
        handle: answers.
        method: GET also takes HEAD.
        credentials: the kinds of credential that are read.
        required: whether a request without one of them is refused. Otherwise `handle` decides what it gets.
        body: "ignored": the site reads it before it calls `handle`; "taken": `handle` reads as much as it wants.
        websocket: whether clients open WebSockets here. `handle` has `limits.handshake` to decide.
        limit: the limit of its address in which a request counts; None: in none.
        reserved: whether it is answered in a reserved slot, and on the port of `runtime.management`.
        shared: whether pages of the manifest's origins may read the responses.
        listed: whether the text of a 404 names it.
    """

    path: str
    handle: Handler
    method: Literal["GET", "POST", "DELETE"] = "GET"
    credentials: Credentials = ()
    required: bool = False
    body: Literal["ignored", "taken"] = "ignored"
    websocket: bool = False
    limit: LimitKind | None = "address_requests"
    reserved: bool = False
    shared: bool = False
    listed: bool = True

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it takes."""
        return READS if self.method == "GET" else (self.method,)

    def has(self, path: str) -> bool:
        """Whether a request for `path` is for this route."""
        folder, _, last = self.path.rpartition("/")
        if last == "*":
            return path.startswith(f"{folder}/")
        return path == self.path or (last == "ID" and bool(part_of(path, folder)))


def part_of(path: str, folder: str) -> str:
    """The one part of `path` below `folder`; empty if it has another form."""
    above, _, last = path.rpartition("/")
    return last if above == folder and len(last) <= 64 and last.replace("-", "").replace("_", "").isalnum() else ""


class Router:
    """The routes of one site. The first that has the path and the method answers."""

    def __init__(self, *routes: Route) -> None:
        self.routes: Sequence[Route] = routes
        self.methods: Sequence[str] = [one for one in _METHODS if any(one in route.methods for route in routes)]
        self.websockets: Sequence[str] = [route.path for route in routes if route.websocket]

    def at(self, path: str) -> list[Route]:
        """The routes of a path."""
        return [route for route in self.routes if route.has(path)]

    def find(self, request: Request) -> Route:
        """The route for a request. Raises Refused: 404, 405."""
        if request.method not in self.methods:
            why, allow = f"{request.method} is not allowed", {"allow": ", ".join(self.methods)}
            raise Refused(Refusal("method_not_allowed", why, allow))
        here = self.at(request.path)
        for route in here:
            if request.method in route.methods:
                return route
        if not here and request.method in READS:
            raise Refused(Refusal("not_found", f"not found; there are {self._listed()}"))
        allowed = [method for route in here for method in route.methods] or READS
        why = f"{request.path} takes {' and '.join(allowed)}, not {request.method}"
        raise Refused(Refusal("method_not_allowed", why, {"allow": ", ".join(allowed)}))

    def _listed(self) -> str:
        paths = ", ".join(dict.fromkeys(route.path for route in self.routes if route.listed and not route.websocket))
        sockets = f"the WebSocket{'s' if len(self.websockets) > 1 else ''} {' and '.join(self.websockets)}"
        return f"{paths} and {sockets}" if self.websockets else paths
