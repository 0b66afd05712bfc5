"""`Refusals`: counts every refused request, and logs so many of them that the log stays readable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

import trio

from reactor_trio.edge.request_metrics import RequestMetrics

log = logging.getLogger("reactor_trio.server")

#: Seconds in which the log has one line for a status. The next line says how many refusals it left out.
QUIET = 10.0

#: `denial` and `address_limits` log these, with the address and the reason; here they are only counted.
_LOGGED_ELSEWHERE = (401, 429)
_HINTS = {
    400: "it is not a request that this server understands",
    403: "a page may connect if its origin is the server's own, or in runtime.origins (--origin)",
    408: "its request was not complete within runtime.limits.handshake",
    413: "its body is larger than this server takes",
    421: "it called the server by a name that is not in runtime.hosts (--allow-host)",
    426: "it asked for the WebSocket without being one",
    431: "its head is larger than runtime.limits.http_head",
    500: "please report this; the traceback stands above",
    503: "there is no room now, see /ready; runtime.queue and runtime.limits.connections say how much there is",
}


class Refusals:
    """The refusals of one server. The log never shows a query, because it may hold a token.

    Args:
        admits: returns whether clients are admitted at all. While the model loads, or the server shuts down, a 503 is
            not logged.
    """

    def __init__(self, metrics: RequestMetrics, admits: Callable[[], bool] = lambda: True) -> None:
        self._metrics = metrics
        self._admits = admits
        #: status -> until when it is not logged, and how many were left out
        self._quiet: dict[int, tuple[float, int]] = {}

    def note(self, who: str, status: int) -> None:
        """Count and log a refusal with an HTTP status. `who` is the address or a description of the client."""
        if status < 400:  # a redirect
            return
        self._metrics.refused(status)
        if status in _LOGGED_ELSEWHERE or (status == 503 and not self._admits()):
            return
        until, left_out = self._quiet.get(status, (0.0, 0))
        now = trio.current_time()
        if now < until:
            self._quiet[status] = until, left_out + 1
            return
        self._quiet[status] = now + QUIET, 0
        more = f"; {left_out} more since the last such line" if left_out else ""
        phrase = HTTPStatus(status).phrase
        hint = f": {_HINTS[status]}" if status in _HINTS else ""
        log.info("%s was refused, %d %s%s%s", who, status, phrase, hint, more)
