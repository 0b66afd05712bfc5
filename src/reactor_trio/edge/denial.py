"""`Denied`: the refusal of a request whose token or ticket does not allow it, and its lines in the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from reactor_trio.protocol.refusals import RefusalCode

log = logging.getLogger("reactor_trio.server")

#: Why a request was denied: it had no token, an unknown token, a ticket outside its time, a used ticket, or a token that
#: does not allow the request; or the server has no room to remember another used ticket.
DenialReason = Literal["missing", "wrong", "expired", "used", "not_allowed", "full"]

#: The code of the refusal for each reason.
CODES: Final[Mapping[DenialReason, RefusalCode]] = MappingProxyType({
    "missing": "token_missing", "wrong": "token_wrong", "expired": "token_expired", "used": "token_used",
    "not_allowed": "not_allowed", "full": "tickets_full",
})  # fmt: skip

#: The reasons that mean: the client has shown a credential, and it is not good.
FAILURES: frozenset[DenialReason] = frozenset({"wrong", "expired", "used"})

#: Seconds in which the log names an address at most once, and how many addresses it names in that time.
LOG_WINDOW, LOG_ADDRESSES = 60.0, 64


class Denied(Exception):
    """A request that its token or ticket does not allow. `message` is one line for the client."""

    def __init__(self, reason: DenialReason, message: str) -> None:
        super().__init__(message)
        self.reason: DenialReason = reason
        self.message = message

    @property
    def code(self) -> RefusalCode:
        """The code of the refusal."""
        return CODES[self.reason]


class DenialLog:
    """Logs a line for each address whose requests are denied, with a limit."""

    def __init__(self) -> None:
        self._until = 0.0
        self._named: set[str] = set()
        self._more = 0

    def note(self, address: str, denied: Denied, now: float) -> None:
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
        log.warning("access: %s was refused: %s (further ones are counted)", address, denied.reason)
