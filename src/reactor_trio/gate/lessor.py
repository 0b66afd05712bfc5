"""`Lessor`: the gate's interface to the engine that starts and watches the servers, and the messages of a lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from reactor_trio.server.leases import Beat, Claimed, Ended


class Granted(msgspec.Struct, frozen=True, tag="Granted"):
    """The first message of a lease: a server has reserved a slot.

    Attributes:
        session_id: the id of the reserved session.
        url: the address to which the client connects.
        key: the secret that signs tickets for that server.
        claim_within: seconds within which the client must come.
        replica: the server's name, for logs and for `Lessor.silent`.
    """

    session_id: str
    url: str
    key: str
    claim_within: float
    replica: str

    def __repr__(self) -> str:
        return f"Granted({self.session_id} at {self.replica})"


#: A message of a lease.
LeaseMessage = Granted | Claimed | Beat | Ended


class LeaseLost(Exception):
    """Raised when the server of a lease is gone, or when no server could grant the lease."""


class Lessor(Protocol):
    """Grants leases at any server that has a free slot."""

    async def lease(self, session_id: str, on_message: Callable[[LeaseMessage], None]) -> None:
        """Reserve a slot for a session of this id, waiting for a free one. Return when the slot is free again.

        This method calls `on_message` on the gate's loop with each message of the lease: `Granted`, then `Claimed`, `Beat`
        each second, and last `Ended`. Cancelling it before `Claimed` gives the slot back; after `Claimed` the session goes
        on. Raises LeaseLost.
        """

    async def silent(self, granted: Granted) -> None:
        """Check the server of this lease, which has been silent for long, and end it if it is stopped. Never raises."""
