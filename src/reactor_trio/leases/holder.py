"""`Lessor`: the gate's interface to the engine that starts and watches the servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactor_trio.leases.messages import Granted, LeaseMessage


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
