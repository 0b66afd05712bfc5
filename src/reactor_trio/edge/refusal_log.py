"""`RefusalLog`: counts and logs what a server refuses: connections, requests, clients, credentials that are not good.

Each refusal that is said counts by its status (`reactor_requests_refused`). One by a limit counts in
`reactor_connections_refused`, too, and one because of a credential in `reactor_access_denied`. A column of its row in
`REFUSALS` decides which line the log has for it:

| refused | column | line in the log | at most |
|---|---|---|---|
| because of a credential | `denied` | the address, the reason | one of an address in 60 s, of 64 addresses |
| by a limit | `limit` | the address, the limit, its setting | one of a limit in 60 s |
| because of the server's phase | `by_phase` | none: the server logs the phase | |
| for another reason | | the connection, the status, the reason | one of a code in 10 s |

A line says how many refusals had none since the last one. No line shows a query, because it may hold a token.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from http import HTTPStatus

import trio
from msgspec.structs import replace

from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.ip_addresses import network_of
from reactor_trio.edge.line_pause import LinePause
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.protocol.refusals import LimitKind, RefusalCode
from reactor_trio.transport import Refusal, Refused

log = logging.getLogger("reactor_trio.edge")

#: Seconds in which the log has one line for a code. The next line says how many refusals it left out.
LINE_PAUSE = 10.0
#: Seconds in which the log has one line for a limit.
LIMIT_PAUSE = 60.0
#: Seconds in which the log names an address at most once, and how many addresses it names in that time.
DENIAL_PAUSE, NAMED_ADDRESSES = 60.0, 64


class RefusalLog:
    """The refusals of one server.

    Args:
        metrics: counts them.
        addresses: has the limit of wrong credentials.
    """

    def __init__(self, metrics: RequestMetrics, addresses: AddressLimits) -> None:
        self._metrics = metrics
        self._addresses = addresses
        self._denials = DenialLog()
        self._limit_lines: dict[LimitKind, LinePause] = defaultdict(partial(LinePause, LIMIT_PAUSE))
        self._other_lines: dict[RefusalCode, LinePause] = defaultdict(partial(LinePause, LINE_PAUSE))

    def note(self, peer: str, address: str | None, refusal: Refusal) -> Refusal:
        """Count and log a refusal, before it is said. Returns the one that the client gets, as `denied` does.

        Args:
            peer: the connection's other end.
            address: of the client, for its limits; None if it has none.
        """
        refusal = self.denied(peer, address, refusal)
        self._metrics.refused(refusal.code)
        if refusal.kind.limit is not None:
            self.limited(refusal.kind.limit, peer, address)
        elif refusal.kind.denied is None and not refusal.kind.by_phase:
            self._log_other(peer, refusal)
        return refusal

    def note_head(self, peer: str, address: str | None, refusal: Refusal) -> Refusal:
        """The same for a request whose head is refused. It counts in the limit of plain requests of its address."""
        try:
            self._addresses.count(address, "address_requests")
        except Refused as too_many:
            refusal = too_many.refusal
        return self.note(peer, address, refusal)

    def denied(self, peer: str, address: str | None, refusal: Refusal) -> Refusal:
        """Count and log, once, that a credential is at fault, or that none was shown. Other refusals only pass.

        A credential that is not good counts in the limit of its address. Returns the refusal by that limit if it is used up.
        The credential was checked before, so a good one never gets that.
        """
        reason = refusal.kind.denied
        if reason is None or refusal.denial_counted:
            return refusal
        self._metrics.denied(reason)
        self._denials.note(address or network_of(peer), reason, trio.current_time())
        if refusal.kind.guess:
            try:
                self._addresses.count(address, "address_failures")
            except Refused as too_many:
                return too_many.refusal
        return replace(refusal, denial_counted=True)

    def limited(self, kind: LimitKind, peer: str, address: str | None = None) -> None:
        """Count and log a refusal by a limit. For a connection that gets no answer this is called alone."""
        self._metrics.limited(kind)
        if (more := self._limit_lines[kind].ending()) is None:
            return
        refused = Refusal(kind)
        most, setting = self._addresses.most[kind], refused.kind.setting
        bound = f"{setting}: {most}" if setting else f"at most {most} a minute"
        hint = "" if kind == "connections" else "; if a proxy brings the clients of many, name it in runtime.proxies"
        log.warning(
            "%s was refused: %s (%s)%s%s; more of this kind is not logged for %g s",
            address or network_of(peer), refused.message, bound, hint, more, LIMIT_PAUSE,
        )  # fmt: skip

    def _log_other(self, peer: str, refusal: Refusal) -> None:
        kind, more = refusal.kind, self._other_lines[refusal.code].ending()
        if more is None:
            return
        who = f"{peer}, {refusal.client}," if refusal.client else peer
        why = f"{kind.meaning} ({kind.setting})" if kind.setting else kind.meaning
        log.info("%s was refused, %d %s: %s%s", who, kind.status, HTTPStatus(kind.status).phrase, why, more)


class DenialLog:
    """Logs a line for each address whose requests are denied, with a limit."""

    def __init__(self) -> None:
        self._until = 0.0
        self._named: set[str] = set()
        self._more = 0

    def note(self, address: str, reason: str, now: float) -> None:
        """Log that a request of `address` was denied at `now` (Trio's clock), unless this window has a line for it."""
        if now >= self._until:
            if self._more:
                log.warning("access: %d more requests were refused since", self._more)
            self._named.clear()
            self._until, self._more = now + DENIAL_PAUSE, 0
        if address in self._named or len(self._named) >= NAMED_ADDRESSES:
            self._more += 1
            return
        self._named.add(address)
        log.warning("access: %s was refused: %s (further ones are counted)", address, reason)
