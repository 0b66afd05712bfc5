"""Who gets which lease: clients in a line, leases as servers grant them.

    a client asks   -> it stands in line, and a lease is asked for: one for each client that waits
    a lease comes   -> the first in line has it, whichever client it was asked for
    a client leaves -> the lease that was asked for last is not needed any more

So the engine sees how many clients wait, which is what it scales by, and the order is the line's whatever the engine does.
The line is an `Admission` whose slots are the leases that are granted; a lease that nobody wants any more is given back.

A lease ends with its session, by the server's word. What happens to the gate, or to the socket on which a client waited,
does not end it. A server that says nothing for three beats counts as lost: its slot is not counted any more, which lets
nobody in twice, since the server itself counts whom it has.
"""

from __future__ import annotations

import logging
import math
import secrets
from dataclasses import dataclass, field

import trio

from reactor_trio.admission import Admission, Change, Claims, Refused
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.gate.gate_metrics import GateMetrics
from reactor_trio.gate.lessor import Granted, LeaseLost, Lessor, Word
from reactor_trio.protocol import Admitted, EndReason
from reactor_trio.server.leases import BEAT, Beat, Claimed, Ended

log = logging.getLogger("reactor_trio.gate")

#: Beats without a word after which a server counts as lost.
MISSED_BEATS = 3
#: Seconds between two tries to have a lease, at first and at most.
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0


@dataclass(eq=False)
class Asking:
    """A client that asks for a place; whoever asked leaves, whatever became of it.

    Attributes:
        address: of the client, None if it has no limits.
        position, total: its place in the line, from 1; 0 once it has a lease.
        decided: set when `place` or `refused` is known.
        place: where its session is.
        refused: why it gets none.
    """

    sid: str
    claims: Claims
    asked_at: float
    address: str | None = None
    position: int = 0
    total: int = 0
    place: Admitted | None = None
    refused: EndReason | None = None
    decided: trio.Event = field(default_factory=trio.Event)
    changed: RepeatedEvent = field(default_factory=RepeatedEvent)


class Allocation:
    """The line of one gate and the leases that it holds.

    Args:
        lessor: gives leases.
        most: clients that may stand in line.
        metrics: told of what happens.
        per_address: clients of one address that may stand in line; 0: as many as there is room for.
    """

    def __init__(self, lessor: Lessor, most: int, metrics: GateMetrics, per_address: int = 0) -> None:
        self._lessor = lessor
        self._per_address = per_address
        self._metrics = metrics
        self._line = Admission(slots=0, queue_limit=most, claim_ttl=math.inf)
        self._askings: dict[str, Asking] = {}
        self._wanted: list[_Lease] = []  # asked for and not granted, the oldest first
        self._free: list[_Lease] = []  # granted, for whoever is next
        self._held: dict[str, _Lease] = {}  # by the client that has it
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Task: the scope of all leases; cancelled, those that are not claimed are given back."""
        async with trio.open_nursery() as self._nursery:
            self._line.open_doors(trio.current_time())
            task_status.started()
            await trio.sleep_forever()

    @property
    def waiting(self) -> int:
        """Clients in the line."""
        return self._line.waiting

    @property
    def places(self) -> int:
        """Leases that clients have."""
        return len(self._held)

    def granted(self, session_id: str) -> Granted | None:
        """The lease of this session, if a client of this gate has it."""
        granted = (lease.granted for lease in self._held.values())
        return next((lease for lease in granted if lease is not None and lease.session_id == session_id), None)

    def address_full(self, address: str | None) -> bool:
        """Return whether as many clients of this address stand in line as may."""
        if not self._per_address or address is None:
            return False
        waiting = (self._line.has(asking.sid) == "waiting" for asking in self._askings.values() if asking.address == address)
        return sum(waiting) >= self._per_address

    def ask(self, claims: Claims, address: str | None = None) -> Asking:
        """Stand in line for a place. Raises Refused if it is full, for all or for this address, or the gate goes down."""
        if self.address_full(address):
            raise Refused("address_full")
        asking = Asking(secrets.token_hex(8), claims, trio.current_time(), address)
        self._askings[asking.sid] = asking
        try:
            changes = self._line.reserve(asking.sid, trio.current_time())
        except BaseException:
            del self._askings[asking.sid]
            raise
        self._tell(changes)
        if self._line.has(asking.sid) == "waiting":
            self._want()
        self._count()
        return asking

    def leave(self, asking: Asking, *, told: bool) -> None:
        """The client is gone; `told`: it knows its place, and may be on its way there."""
        self._askings.pop(asking.sid, None)
        if self._line.has(asking.sid) == "waiting":
            self._tell(self._line.release(asking.sid, trio.current_time()))
            if len(self._wanted) > self._line.waiting:
                self._wanted.pop().scope.cancel()
        elif (lease := self._held.get(asking.sid)) is not None and not told:
            lease.scope.cancel()
        self._count()

    def resize(self, most: int) -> None:
        """So many clients may stand in line from now on; who does may stay."""
        self._line.queue_limit = most

    def drain(self) -> None:
        """Nobody gets a place any more; who waits is sent away, sessions go on."""
        self._tell(self._line.drain())
        for lease in (*self._wanted, *self._free):
            lease.scope.cancel()
        self._count()

    # ---- leases -------------------------------------------------------------------------------------------------------

    def _want(self) -> None:
        assert self._nursery is not None, "Allocation.run has not begun"
        lease = _Lease()
        self._wanted.append(lease)
        self._nursery.start_soon(self._hold, lease)

    async def _hold(self, lease: _Lease) -> None:
        """One lease, from asking for it until its slot is free; tried again until it is granted or not wanted any more."""
        wait = FIRST_WAIT
        with lease.scope:
            while True:
                try:
                    await self._lessor.lease(secrets.token_hex(8), lambda word: self._hear(lease, word))
                except LeaseLost as lost:
                    self._metrics.lost()
                    log.warning("a lease was lost%s: %s", _at(lease), lost)
                if lease.granted is not None:
                    break
                await trio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        self._give_up(lease)
        if lease.granted is not None and lease.silent:
            self._metrics.lost()
            log.warning("a lease was lost%s: it has said nothing for %g s", _at(lease), MISSED_BEATS * BEAT)
            await self._lessor.silent(lease.granted)

    def _hear(self, lease: _Lease, word: Word) -> None:
        match word:
            case Granted():
                self._granted(lease, word)
            case Ended(reason):
                self._metrics.ended(reason)
                lease.scope.deadline = math.inf
                return
            case Claimed() | Beat():
                pass
        lease.scope.deadline = trio.current_time() + MISSED_BEATS * BEAT

    def _granted(self, lease: _Lease, granted: Granted) -> None:
        lease.granted = granted
        if lease in self._wanted:
            self._wanted.remove(lease)
        # One that was given up in this very moment still says that it is granted; whoever took its place would lose it.
        if lease.scope.cancel_called or self._line.open != "open" or self._line.waiting == 0:
            lease.scope.cancel()
            return
        self._free.append(lease)
        self._tell(self._line.resize(self._line.slots + 1, trio.current_time()))
        self._count()

    def _give_up(self, lease: _Lease) -> None:
        """A lease is over, or will never be."""
        for leases in (self._wanted, self._free):
            if lease in leases:
                leases.remove(lease)
        holder = next((sid for sid, held in self._held.items() if held is lease), None)
        if holder is not None:
            del self._held[holder]
            self._tell(self._line.resize(self._line.slots - 1, trio.current_time()))
            self._tell(self._line.release(holder, trio.current_time()))
        self._count()

    # ---- clients ------------------------------------------------------------------------------------------------------

    def _tell(self, changes: list[Change]) -> None:
        for change in changes:
            asking = self._askings.get(change.sid)
            if asking is None:
                continue
            if change.kind == "moved":
                asking.position, asking.total = change.position, change.total
            elif change.kind == "admitted":
                self._place(asking)
            else:
                asking.refused = change.kind
                asking.decided.set()
            asking.changed.set()

    def _place(self, asking: Asking) -> None:
        lease = self._held[asking.sid] = self._free.pop(0)
        granted, claims = lease.granted, asking.claims
        assert granted is not None
        ticket = issue_ticket(
            granted.key, session=granted.session_id, expires=granted.claim_within, subject=claims.subject,
            max_session=claims.session_length,
        )  # fmt: skip
        asking.place = Admitted(granted.url, ticket, granted.session_id, granted.claim_within)
        asking.position = asking.total = 0
        asking.decided.set()
        self._metrics.allocated(trio.current_time() - asking.asked_at)
        log.info("session %s is at %s", granted.session_id, granted.replica)

    def _count(self) -> None:
        self._metrics.waiting, self._metrics.places = self.waiting, self.places


@dataclass(eq=False)
class _Lease:
    """One lease; its scope ends it, by a deadline if its server is silent, and gives it back if it is not claimed."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    granted: Granted | None = None

    @property
    def silent(self) -> bool:
        """Whether the server said nothing for so long that it counts as lost."""
        return self.scope.cancelled_caught and trio.current_time() >= self.scope.deadline


def _at(lease: _Lease) -> str:
    return "" if lease.granted is None else f" at {lease.granted.replica}"
