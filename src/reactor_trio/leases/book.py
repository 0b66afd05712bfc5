"""`Leases`: a server's book of the slots that it has promised to a gate, each for one session.

    Leases.grant -> the slot counts as taken -> the client shows its ticket -> its session -> the slot is free: Ended
                                           '-> no client comes within `claim_within`: Ended("unclaimed")

The gate gives a callback with each lease and gets every message through it; the last one is `Ended`. Only the end of the
session ends its lease: a client that is connected notices nothing when its gate disappears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from reactor_trio.admission import NotAdmitted
from reactor_trio.leases.messages import BEAT, Beat, Claimed, Ended, Granted, LeaseMessage, Unavailable
from reactor_trio.protocol import EndReason

#: receives the messages of one lease, on the server's loop
OnMessage = Callable[[Claimed | Beat | Ended], object]


class Slots(Protocol):
    """Counts a server's slots: its `WaitingRoom`, which calls `Leases.slot_free`."""

    def reserve(self, sid: str) -> None:
        """Reserve a slot for a session whose client will come. Raises NotAdmitted if none is free now."""

    def release(self, sid: str) -> bool:
        """Free a slot that was reserved ahead. Returns False if its client has come already."""


@dataclass
class _Lease:
    on_message: OnMessage
    reason: EndReason = "client_left"  # why its session ended


class Leases:
    """The leases of one server."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._open: dict[str, _Lease] = {}
        self._any_open = trio.Event()

    def open(self, session_id: str, on_message: OnMessage) -> None:
        """Reserve a slot for the session with this id. Raises NotAdmitted; `on_message` is not called then."""
        self._slots.reserve(session_id)
        self._open[session_id] = _Lease(on_message)
        self._any_open.set()

    def grant(self, granted: Granted, on_message: Callable[[LeaseMessage | Unavailable], object]) -> None:
        """Reserve a slot for the session of `granted` and send that to the gate, or `Unavailable` if no slot is free now."""
        try:
            self.open(granted.session_id, on_message)
        except NotAdmitted as refused:
            on_message(Unavailable(refused.reason))
        else:
            on_message(granted)

    def cancel(self, session_id: str) -> bool:
        """End a lease that no client has claimed. A claimed lease lasts until its session ends: returns False."""
        if not self._slots.release(session_id):
            return False
        self.slot_free(session_id, "unclaimed")
        return True

    def begun(self, session_id: str) -> None:
        """Report that the session of this lease has begun."""
        if (lease := self._open.get(session_id)) is not None:
            lease.on_message(Claimed())

    def over(self, session_id: str, reason: EndReason) -> None:
        """Note why the session ended. Its slot becomes free a moment later."""
        if (lease := self._open.get(session_id)) is not None:
            lease.reason = reason

    async def run(self) -> None:
        """Task: send a `Beat` for each open lease every second, until cancelled."""
        while True:
            await self._any_open.wait()
            await trio.sleep(BEAT)
            for lease in list(self._open.values()):
                lease.on_message(Beat())

    def slot_free(self, session_id: str, reason: EndReason | None) -> None:
        """Report that the slot of this session is free again, and the reason if no client has claimed it."""
        if (lease := self._open.pop(session_id, None)) is None:
            return
        if not self._open:
            self._any_open = trio.Event()
        lease.on_message(Ended(reason or lease.reason))
