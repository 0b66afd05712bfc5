"""`RefusalLog`: counts every refused request, and logs so many of them that the log stays readable."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final, get_args

import trio

from reactor_trio.admission import Phase
from reactor_trio.edge.request_metrics import LimitKind, RequestMetrics
from reactor_trio.protocol.refusals import REFUSALS, RefusalCode
from reactor_trio.transport import Refusal

log = logging.getLogger("reactor_trio.server")

#: Seconds in which the log has one line for a code. The next line says how many refusals it left out.
LINE_PAUSE = 10.0

#: Codes that the log has from elsewhere: denials from `access_denials` and limits from `address_limits`, with the address; a
#: phase from the server, when it begins.
LOGGED_ELSEWHERE: Final = frozenset(code for code, kind in REFUSALS.items() if kind.denied is not None) | {
    *get_args(LimitKind), *get_args(Phase)
}


class RefusalLog:
    """The refusals of one port. The log never shows a query, because it may hold a token."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        #: until when a code is not logged, and how many refusals were left out
        self._pauses: dict[RefusalCode, tuple[float, int]] = {}

    def note(self, peer: str, refusal: Refusal) -> None:
        """Count and log a refusal. `peer` is the address of the connection."""
        code, kind = refusal.code, refusal.kind
        self._metrics.refused(code)
        if code in LOGGED_ELSEWHERE:
            return
        until, left_out = self._pauses.get(code, (0.0, 0))
        now = trio.current_time()
        if now < until:
            self._pauses[code] = until, left_out + 1
            return
        self._pauses[code] = now + LINE_PAUSE, 0
        who = f"{peer}, {refusal.client}," if refusal.client else peer
        why = f"{kind.meaning} ({kind.setting})" if kind.setting else kind.meaning
        more = f"; {left_out} more since the last such line" if left_out else ""
        log.info("%s was refused, %d %s: %s%s", who, kind.status, HTTPStatus(kind.status).phrase, why, more)
