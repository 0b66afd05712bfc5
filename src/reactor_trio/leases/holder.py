"""`HeldLease`: a lease at the gate, and `Lessor`, the gate's interface to the engine that starts and watches the servers."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Protocol

import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.leases.messages import BEAT, Claimed, Ended, Granted, LeaseMessage

#: Beats without a message after which a server counts as lost.
MISSED_BEATS = 3
#: Seconds between two requests for a lease: the first pause, and the longest.
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0


class LeaseLost(Exception):
    """Raised when the server of a lease is gone, or when no server could grant the lease."""


#: What the gate learns about a lease that it holds.
LeaseEvent = Granted | Claimed | Ended | LeaseLost


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


class HeldLease:
    """One lease, from its request until its slot is free.

    Attributes:
        granted: what the server has promised; None until then.
        claimed: whether the client has come to the server.
        given_up: whether the gate does not need the lease any more.
        silent: whether the lease ended because its server sent no message for `MISSED_BEATS`.
    """

    def __init__(self) -> None:
        self.granted: Granted | None = None
        self.claimed = self.silent = False
        self._scope = trio.CancelScope()  # each message of the server moves its deadline

    @property
    def given_up(self) -> bool:
        """See the class."""
        return self._scope.cancel_called

    def give_up(self) -> None:
        """Request the lease no more, or give it back. The session of a client that has come goes on."""
        self._scope.cancel()

    async def hold(self, lessor: Lessor, on_event: Callable[[LeaseEvent], None]) -> None:
        """Request the lease until a server grants it. Return when it has ended, is lost or is given up.

        `on_event` is called when a server grants it, when the client has come, when it ends, and each time that it is lost.
        """
        pause = FIRST_WAIT
        with patient(self._scope):
            while True:
                try:
                    await lessor.lease(secrets.token_hex(8), lambda message: self._on_message(message, on_event))
                except LeaseLost as lost:
                    on_event(lost)
                if self.granted is not None:
                    return
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_WAIT)
        if self.granted is not None and self._scope.cancelled_caught and trio.current_time() >= self._scope.deadline:
            self.silent = True
            on_event(LeaseLost(f"no message for {MISSED_BEATS * BEAT:g} s"))

    def _on_message(self, message: LeaseMessage, on_event: Callable[[LeaseEvent], None]) -> None:
        self._scope.deadline = trio.current_time() + MISSED_BEATS * BEAT
        if isinstance(message, Granted):
            self.granted = message
            on_event(message)
        elif isinstance(message, Claimed):
            self.claimed = True
            on_event(message)
        elif isinstance(message, Ended):
            on_event(message)
            self._scope.deadline = math.inf
