"""Slots and queue as a state machine: no loop, no socket, no clock.

A client asks with `reserve`. If a slot is free it is reserved at once, and counts from that moment: the only way to two
clients in one slot would be to ask for load first and count later. If none is free the client waits, first come first
served, up to `queue_limit`. `claim` turns a reservation into a live session before its deadline; `release` ends whatever
the client has, and lets the next one in. Each call returns the changes it made for others, for the caller to tell them.

`take_over` is for a newcomer that gets what another has: its place in the queue, or the first one if it holds the slot,
which is free when that one's session has unwound. It needs no room in the queue: whoever takes over from one who plays is
the next to be taken over from, so there is one such place for each slot at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RefusalReason = Literal["full", "address_full", "draining", "not_ready", "unclaimed"]


class Refused(Exception):
    """No room, no room for one more of this address, not now, or what was reserved has not been claimed in time."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(reason)
        self.reason: RefusalReason = reason


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a client that waits or holds a reservation; `position` counts from 1, `total` all who wait."""

    sid: str
    kind: Literal["admitted", "moved", "unclaimed", "draining", "taken_over"]
    position: int = 0
    total: int = 0


class Admission:
    """Slots of one server.

    Args:
        slots: sessions at the same time.
        queue_limit: clients that may wait; 0: none.
        claim_ttl: seconds in which a reservation must be claimed.
    """

    def __init__(self, slots: int, queue_limit: int, claim_ttl: float = 10.0) -> None:
        self.slots = slots
        self.queue_limit = queue_limit
        self.claim_ttl = claim_ttl
        self.open: Literal["not_ready", "open", "draining"] = "not_ready"
        self._waiting: dict[str, tuple[int, int]] = {}  # in order of arrival, with what each was told last
        self._reserved: dict[str, float] = {}
        self._live: set[str] = set()

    @property
    def waiting(self) -> int:
        """Clients in the queue."""
        return len(self._waiting)

    @property
    def reserved(self) -> int:
        """Slots reserved and not claimed."""
        return len(self._reserved)

    @property
    def live(self) -> int:
        """Sessions that run."""
        return len(self._live)

    def room(self) -> RefusalReason | None:
        """Why a client that asked now would be refused; None if it would get a slot or a place in the queue."""
        if self.open != "open":
            return "draining" if self.open == "draining" else "not_ready"
        if self.free <= 0 and len(self._waiting) >= self.queue_limit:
            return "full"
        return None

    def reserve(self, sid: str, now: float, *, wait: bool = True) -> list[Change]:
        """Ask for a slot: `sid` is admitted, or given a place in the queue if it would `wait`. Raises Refused."""
        self._check_new(sid)
        if (reason := self.room()) is not None:
            raise Refused(reason)
        if not wait and (self.free <= 0 or self._waiting):
            raise Refused("full")
        self._waiting[sid] = (0, 0)
        return self._advance(now)

    def take_over(self, sid: str, other: str, now: float) -> list[Change]:
        """Ask for what `other` has; a session of it goes on until `release`. Raises Refused."""
        self._check_new(sid)
        if self.open != "open":
            raise Refused("draining" if self.open == "draining" else "not_ready")
        line = dict(self._waiting)
        if self.has(other) == "waiting":
            self._waiting = {sid if one == other else one: (0, 0) if one == other else told for one, told in line.items()}
        elif self.has(other) is not None:
            self._reserved.pop(other, None)
            self._waiting = {sid: (0, 0), **line}
        else:
            raise ValueError(f"{other} has nothing")
        return [Change(other, "taken_over"), *self._advance(now)]

    def has(self, sid: str) -> Literal["waiting", "reserved", "live"] | None:
        """What `sid` has."""
        if sid in self._waiting:
            return "waiting"
        if sid in self._reserved:
            return "reserved"
        return "live" if sid in self._live else None

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return self.slots - len(self._live) - len(self._reserved)

    @property
    def next_deadline(self) -> float:
        """When the next reservation runs out, for `expire`; infinity if there is none."""
        return min(self._reserved.values(), default=math.inf)

    def claim(self, sid: str, now: float) -> None:
        """Turn a reservation into a live session. Raises Refused if there is none, or it ran out."""
        deadline = self._reserved.get(sid)
        if deadline is None or now >= deadline:
            raise Refused("draining" if self.open == "draining" else "not_ready")
        del self._reserved[sid]
        self._live.add(sid)

    def release(self, sid: str, now: float) -> list[Change]:
        """End what `sid` has, whatever that is; a second call does nothing."""
        self._live.discard(sid)
        self._reserved.pop(sid, None)
        self._waiting.pop(sid, None)
        return self._advance(now)

    def expire(self, now: float) -> list[Change]:
        """End reservations that were not claimed in time."""
        late = [sid for sid, deadline in self._reserved.items() if now >= deadline]
        for sid in late:
            del self._reserved[sid]
        return [Change(sid, "unclaimed") for sid in late] + self._advance(now)

    def open_doors(self, now: float) -> list[Change]:
        """The model is loaded: clients may come."""
        self.open = "open"
        return self._advance(now)

    def resize(self, slots: int, now: float) -> list[Change]:
        """There are so many slots from now on; who has one keeps it."""
        self.slots = slots
        return self._advance(now)

    def close_doors(self) -> None:
        """The model is gone for a while: who waits keeps the place, nobody new comes."""
        self.open = "not_ready"

    def drain(self) -> list[Change]:
        """Refuse from now on; those who wait or have not claimed are told."""
        self.open = "draining"
        told = [Change(sid, "draining") for sid in (*self._reserved, *self._waiting)]
        self._reserved.clear()
        self._waiting.clear()
        return told

    def tell_again(self) -> list[Change]:
        """Why they wait has changed: each is told its place anew."""
        total = len(self._waiting)
        return [Change(sid, "moved", position, total) for position, sid in enumerate(self._waiting, 1)]

    def _check_new(self, sid: str) -> None:
        if self.has(sid) is not None:
            raise ValueError(f"{sid} has asked already")

    def _advance(self, now: float) -> list[Change]:
        """Let in whom there is room for; tell those who still wait what has changed for them."""
        changes: list[Change] = []
        while self.open == "open" and self._waiting and self.free > 0:
            sid = next(iter(self._waiting))
            del self._waiting[sid]
            self._reserved[sid] = now + self.claim_ttl
            changes.append(Change(sid, "admitted"))
        total = len(self._waiting)
        for position, (sid, told) in enumerate(list(self._waiting.items()), 1):
            if told != (position, total):
                self._waiting[sid] = (position, total)
                changes.append(Change(sid, "moved", position, total))
        return changes
