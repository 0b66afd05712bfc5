"""`Admission`: a server's slots and queue as a state machine, without loop, socket or clock.

    nothing --reserve--> waiting --a slot is free--> reserved --claim--> live
                                                     any of them --release--> nothing

* `reserve` asks for a slot. A free slot is reserved at once and counts as taken from that moment, so no two clients can get
  the same slot. If no slot is free, the client waits, first come, first served, up to `queue_limit` clients.
* `claim` turns a reservation into a live session, before the reservation's deadline.
* `release` ends whatever the client has, and admits the next client.

Each call returns the `Change`s that it made, and the caller reports them to the clients.

`take_over` gives a new client what another client has: its position in the queue, or, if the other one has a slot, the first
position in the queue until the other's session has ended. It needs no room in the queue. The next client that takes over
replaces the one that waits for a slot in this way, so at most one such client waits for each slot.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

RefusalReason = Literal["full", "address_full", "draining", "not_ready", "unclaimed"]


class NotAdmitted(Exception):
    """Raised when a client gets no slot and no position in the queue; `reason` says why."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(reason)
        self.reason: RefusalReason = reason


class Change(msgspec.Struct, frozen=True):
    """A change for a client that waits or has a reservation. `position` counts from 1; `total` is the queue's length."""

    sid: str
    kind: Literal["admitted", "moved", "unclaimed", "draining", "taken_over"]
    position: int = 0
    total: int = 0


class Admission:
    """The slots and the queue of one server.

    Args:
        slots: the most sessions at the same time.
        queue_limit: the most clients that may wait; 0 means none.
        claim_ttl: seconds within which a reservation must be claimed.
        per_address: the most clients of one address that may wait; 0 means no limit but the queue's.
    """

    def __init__(self, slots: int, queue_limit: int, claim_ttl: float = 10.0, per_address: int = 0) -> None:
        self.slots = slots
        self.queue_limit = queue_limit
        self.claim_ttl = claim_ttl
        self.per_address = per_address
        self.open: Literal["not_ready", "open", "draining"] = "not_ready"
        #: in order, with the last position and total reported to each client, and its address
        self._waiting: dict[str, tuple[int, int, str | None]] = {}
        self._reserved: dict[str, float] = {}
        self._live: set[str] = set()

    @property
    def waiting(self) -> int:
        """How many clients wait in the queue."""
        return len(self._waiting)

    @property
    def live(self) -> int:
        """How many sessions run."""
        return len(self._live)

    @property
    def reserved(self) -> int:
        """How many slots are reserved and not claimed."""
        return len(self._reserved)

    def refusal(self, address: str | None = None) -> RefusalReason | None:
        """Return why a new client would be refused now, or None if it would get a slot or a position in the queue.

        Clients without `address` have no limit by address.
        """
        if self.open != "open":
            return self.open
        if self.free > 0:
            return None
        neighbours = sum(address is not None and one == address for _, _, one in self._waiting.values())
        if 0 < self.per_address <= neighbours:
            return "address_full"
        return "full" if len(self._waiting) >= self.queue_limit else None

    def reserve(self, sid: str, now: float, address: str | None = None, *, wait: bool = True) -> list[Change]:
        """Admit `sid`, or put it into the queue if it may `wait`. Raises NotAdmitted."""
        self._check_new(sid)
        if (reason := self.refusal(address)) is not None:
            raise NotAdmitted(reason)
        if not wait and (self.free <= 0 or self._waiting):
            raise NotAdmitted("full")
        self._waiting[sid] = (0, 0, address)
        return self._advance(now)

    def take_over(self, sid: str, other: str, now: float, address: str | None = None) -> list[Change]:
        """Give `sid` what `other` has. If `other` has a session, it goes on until `release`. Raises NotAdmitted."""
        self._check_new(sid)
        if self.open != "open":
            raise NotAdmitted(self.open)
        if (state := self.has(other)) is None:
            raise ValueError(f"{other} has nothing")
        self._reserved.pop(other, None)
        queue = [sid if one == other else one for one in self._waiting] if state == "waiting" else [sid, *self._waiting]
        self._waiting = {one: self._waiting.get(one, (0, 0, address)) for one in queue}
        return [Change(other, "taken_over"), *self._advance(now)]

    def has(self, sid: str) -> Literal["waiting", "reserved", "live"] | None:
        """Return the state of `sid`, or None if it has nothing."""
        if sid in self._waiting:
            return "waiting"
        if sid in self._reserved:
            return "reserved"
        return "live" if sid in self._live else None

    @property
    def free(self) -> int:
        """How many slots are free; negative if there are fewer slots than sessions and reservations."""
        return self.slots - len(self._live) - len(self._reserved)

    @property
    def next_deadline(self) -> float:
        """The time at which the next reservation expires; infinity if there is none."""
        return min(self._reserved.values(), default=math.inf)

    def claim(self, sid: str, now: float) -> None:
        """Turn a reservation into a live session. Raises NotAdmitted if `sid` has no reservation, or it has expired."""
        deadline = self._reserved.get(sid)
        if deadline is None or now >= deadline:
            raise NotAdmitted("not_ready" if self.open == "open" else self.open)
        del self._reserved[sid]
        self._live.add(sid)

    def release(self, sid: str, now: float) -> list[Change]:
        """End what `sid` has. A second call does nothing."""
        self._live.discard(sid)
        self._reserved.pop(sid, None)
        self._waiting.pop(sid, None)
        return self._advance(now)

    def expire(self, now: float) -> list[Change]:
        """End the reservations that were not claimed in time."""
        late = [sid for sid, deadline in self._reserved.items() if now >= deadline]
        self._reserved = {sid: deadline for sid, deadline in self._reserved.items() if now < deadline}
        return [Change(sid, "unclaimed") for sid in late] + self._advance(now)

    def start_admitting(self, now: float) -> list[Change]:
        """Admit clients: the model is loaded. After `drain` this has no effect."""
        if self.open != "draining":
            self.open = "open"
        return self._advance(now)

    def resize(self, slots: int, now: float) -> list[Change]:
        """Change the number of slots. A client that has a slot keeps it."""
        self.slots = slots
        return self._advance(now)

    def stop_admitting(self) -> None:
        """Admit no new clients while the model is gone. Waiting clients keep their position."""
        if self.open != "draining":
            self.open = "not_ready"

    def drain(self) -> list[Change]:
        """Refuse all clients from now on. Return a change for each client that waits or has not claimed its slot."""
        self.open = "draining"
        changes = [Change(sid, "draining") for sid in (*self._reserved, *self._waiting)]
        self._reserved.clear()
        self._waiting.clear()
        return changes

    def tell_again(self) -> list[Change]:
        """Return each waiting client's position once more, because the reason why it waits has changed."""
        total = len(self._waiting)
        return [Change(sid, "moved", position, total) for position, sid in enumerate(self._waiting, 1)]

    def _check_new(self, sid: str) -> None:
        if self.has(sid) is not None:
            raise ValueError(f"{sid} has asked already")

    def _advance(self, now: float) -> list[Change]:
        """Admit as many clients as there are free slots. Return these changes, and the new positions of the others."""
        changes: list[Change] = []
        while self.open == "open" and self._waiting and self.free > 0:
            sid = next(iter(self._waiting))
            del self._waiting[sid]
            self._reserved[sid] = now + self.claim_ttl
            changes.append(Change(sid, "admitted"))
        total = len(self._waiting)
        for position, (sid, (*reported, address)) in enumerate(list(self._waiting.items()), 1):
            if reported != [position, total]:
                self._waiting[sid] = (position, total, address)
                changes.append(Change(sid, "moved", position, total))
        return changes
