"""Who has the servers: what a gate asks of the engine that starts and watches them, whichever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from reactor_trio.server.leases import Beat, Claimed, Ended


class Granted(msgspec.Struct, frozen=True, tag=True):
    """A server has promised a slot.

    Attributes:
        session_id: of the session that is reserved.
        url: where its client connects.
        key: signs tickets for that server; a secret.
        claim_within: seconds in which the client must have come.
        replica: which server, for logs and for `Lessor.silent`.
    """

    session_id: str
    url: str
    key: str
    claim_within: float
    replica: str

    def __repr__(self) -> str:
        return f"Granted({self.session_id} at {self.replica})"


Word = Granted | Claimed | Beat | Ended

class LeaseLost(Exception):
    """The server that gave it is gone, or there is none that could."""


class Lessor(Protocol):
    """Gives leases at whichever server has a slot."""

    async def lease(self, session_id: str, tell: Callable[[Word], None]) -> None:
        """Have a slot for a session of this id, wait for one if none is free, and return when the slot is free again.

        `tell` is called on the gate's loop: `Granted`, then `Claimed`, `Beat` each second, and last `Ended`. Cancelled
        before `Claimed`, the slot is given back; afterwards the session goes on. Raises LeaseLost.
        """

    async def silent(self, granted: Granted) -> None:
        """The server of this lease has said nothing for long: see whether it must be ended. Never raises."""
