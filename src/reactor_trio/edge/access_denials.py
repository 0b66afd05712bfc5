"""`AccessDenials`: what a credential that is not enough costs: a count, a line in the log, a try of its address."""

from __future__ import annotations

import logging

import trio
from msgspec.structs import replace

from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.ip_addresses import network_of
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.transport import Exchange, Refusal, Refused

log = logging.getLogger("reactor_trio.server")

#: Seconds in which the log names an address at most once, and how many addresses it names in that time.
LOG_WINDOW, LOG_ADDRESSES = 60.0, 64


class AccessDenials:
    """The denied requests of one port."""

    def __init__(self, metrics: RequestMetrics, addresses: AddressLimits) -> None:
        self._metrics = metrics
        self._addresses = addresses
        self._log = DenialLog()

    def note(self, exchange: Exchange, refusal: Refusal) -> Refusal:
        """Count and log a refusal that is because of a credential, once.

        Returns the refusal that the client gets: 429 if its address has shown too many credentials that are not good. The
        credential was checked before, so a good one never gets that.
        """
        reason = refusal.kind.denied
        if reason is None or refusal.denial_counted:
            return refusal
        self._metrics.denied(reason)
        self._log.note(exchange.address or network_of(exchange.peer), reason, trio.current_time())
        if refusal.kind.guess:
            try:
                self._addresses.count(exchange.address, "address_failures")
            except Refused as too_many:
                return too_many.refusal
        return replace(refusal, denial_counted=True)


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
            self._until, self._more = now + LOG_WINDOW, 0
        if address in self._named or len(self._named) >= LOG_ADDRESSES:
            self._more += 1
            return
        self._named.add(address)
        log.warning("access: %s was refused: %s (further ones are counted)", address, reason)
