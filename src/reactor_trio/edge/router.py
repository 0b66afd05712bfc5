"""`Route` and `Router`: which paths a site has, what each is for, and what answers there.

What the site says of its paths comes from the list of its routes: 404 and 405 with their texts, `Allow`, the WebSockets, and
which responses pages of other origins may read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from reactor_trio.edge.grants import Credentials, Grant
from reactor_trio.protocol.refusals import LimitKind
from reactor_trio.transport import Conversation, Exchange, Refusal, Refused, Request, Response

READS = ("GET", "HEAD")
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

    Attributes:
        methods: the methods that it takes.
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
    methods: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", READS if self.method == "GET" else (self.method,))

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
    """The routes of one site, and the one decision what a path is: nothing (404), for other methods (405), or a route.

    The first route that has the path and the method answers.
    """

    def __init__(self, *routes: Route) -> None:
        self.routes: Sequence[Route] = routes
        self.websockets: Sequence[str] = [route.path for route in routes if route.websocket]

    def at(self, path: str) -> list[Route]:
        """The routes of a path."""
        return [route for route in self.routes if route.has(path)]

    def find(self, request: Request, *, websocket: bool = False) -> Route:
        """The route for a request, or for one that asks for a WebSocket. Raises Refused: 404, 405."""
        allowed: list[str] = []
        for route in self.routes:
            if not route.has(request.path):
                continue
            if request.method in route.methods and (route.websocket or not websocket):
                return route
            allowed += route.methods
        if websocket and (not allowed or request.method in allowed):
            where = f", only at {' and '.join(self.websockets)}" if self.websockets else ""
            raise Refused(Refusal("not_found", f"there is no WebSocket at {request.path}{where}"))
        if not allowed:
            raise Refused(Refusal("not_found", f"not found; there are {self._listed()}"))
        why = f"{request.path} takes {' and '.join(allowed)}, not {request.method}"
        raise Refused(Refusal("method_not_allowed", why, {"allow": ", ".join(allowed)}))

    def _listed(self) -> str:
        paths = ", ".join(dict.fromkeys(route.path for route in self.routes if route.listed and not route.websocket))
        sockets = f"the WebSocket{'s' if len(self.websockets) > 1 else ''} {' and '.join(self.websockets)}"
        return f"{paths} and {sockets}" if self.websockets else paths
