"""`Refusals`: counts every refused request, and logs so many of them that the log stays readable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

import trio

from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.protocol.refusals import REFUSALS, RefusalCode, RefusalKind
from reactor_trio.transport import Response

log = logging.getLogger("reactor_trio.server")

#: Seconds in which the log has one line for a code. The next line says how many refusals it left out.
QUIET = 10.0

#: `denial` and `address_limits` log these, with the address and the reason; here they are only counted.
_LOGGED_ELSEWHERE = (401, 429)


class Refusals:
    """The refusals of one server. The log never shows a query, because it may hold a token.

    Args:
        admits: returns whether clients are admitted at all. While the model loads, or the server shuts down, a 503 is
            not logged.
    """

    def __init__(self, metrics: RequestMetrics, admits: Callable[[], bool] = lambda: True) -> None:
        self._metrics = metrics
        self._admits = admits
        #: code -> until when it is not logged, and how many were left out
        self._quiet: dict[RefusalCode | None, tuple[float, int]] = {}

    def note(self, who: str, response: Response) -> None:
        """Count and log a refusal. `who` is the address or a description of the client."""
        status, code = response.status, response.refusal
        self._metrics.refused(status)
        if status in _LOGGED_ELSEWHERE or (status == 503 and not self._admits()):
            return
        until, left_out = self._quiet.get(code, (0.0, 0))
        now = trio.current_time()
        if now < until:
            self._quiet[code] = until, left_out + 1
            return
        self._quiet[code] = now + QUIET, 0
        more = f"; {left_out} more since the last such line" if left_out else ""
        hint = "" if code is None else f": {_hint(REFUSALS[code])}"
        log.info("%s was refused, %d %s%s%s", who, status, HTTPStatus(status).phrase, hint, more)


def _hint(kind: RefusalKind) -> str:
    return f"{kind.meaning} ({kind.setting})" if kind.setting else kind.meaning
