"""`Allocation`: the queue of waiting clients, and the leases that servers grant for them.

    a client asks       -> it joins the queue, and the gate requests one lease for it
    a lease is granted  -> the first client in the queue gets it, whichever client it was requested for
    a client leaves     -> the newest lease request is cancelled

So the engine that runs the servers sees as many requests as clients wait, and scales by that number. The queue alone decides
the order. The queue is an `Admission` whose slots are the granted leases. A lease that no client needs is given back.

A lease ends with its session, when the server reports that. A failure of the gate, or of the socket on which the client
waited, does not end it. If a server sends no message for three beats, the gate counts it as lost and frees its slot in the
queue. No slot is given twice by that, since the server itself counts its sessions.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from reactor_trio.admission import Admission, Change, Claims
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.edge.line_pause import LinePause
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.gate.gate_metrics import GateMetrics
from reactor_trio.leases.holder import HeldLease, LeaseEvent, LeaseLost, Lessor
from reactor_trio.leases.messages import Ended, Granted
from reactor_trio.protocol import Admitted, EndReason

log = logging.getLogger("reactor_trio.gate")

#: Seconds in which the log has one line for leases that no server could grant. Each waiting client requests one a second.
LOSS_PAUSE = 10.0


@dataclass(eq=False)
class SlotRequest:
    """One client's request for a slot of a server, for the block of `Allocation.asking`.

    Attributes:
        sid: the gate's own id of this request.
        claims: what the client may do.
        asked_at: `trio.current_time()` of the request.
        position, total: the client's position in the queue, from 1, and the queue's length; 0 once it has a lease.
        admitted: where the client's session is, or None.
        refused: why the client gets no slot, or None.
        decided: set when `admitted` or `refused` is known.
        changed: rung at each change of the attributes above.
        kept: set it if the client may know where its session is. Then the lease goes on after the request.
    """

    sid: str
    claims: Claims
    asked_at: float
    position: int = 0
    total: int = 0
    admitted: Admitted | None = None
    refused: EndReason | None = None
    decided: trio.Event = field(default_factory=trio.Event)
    changed: RepeatedEvent = field(default_factory=RepeatedEvent)
    kept: bool = False


class Allocation:
    """The queue of one gate, and the gate's leases.

    Args:
        lessor: grants leases.
        most: the most clients that may wait in the queue.
        per_address: the most clients of one address that may wait; 0 means no limit by address.

    Attributes:
        metrics: the gate's counters.
    """

    def __init__(self, lessor: Lessor, most: int, per_address: int = 0) -> None:
        self._lessor = lessor
        self.metrics = GateMetrics(lambda: (self.waiting, self.leased))
        self._queue = Admission(slots=0, queue_limit=most, claim_ttl=math.inf, per_address=per_address)
        self._requests: dict[str, SlotRequest] = {}
        self._pending: list[HeldLease] = []  # not yet granted, the oldest first
        self._held: dict[str, HeldLease] = {}  # by the client's `SlotRequest.sid`
        self._settled = RepeatedEvent()  # a client has come to its server, or a lease is forgotten
        self._not_granted = LinePause(LOSS_PAUSE)
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Task: run all leases. When cancelled, give back the leases whose clients have not come."""
        async with trio.open_nursery() as self._nursery:
            self._queue.start_admitting(trio.current_time())
            task_status.started()
            await trio.sleep_forever()

    @property
    def waiting(self) -> int:
        """How many clients wait in the queue."""
        return self._queue.waiting

    @property
    def leased(self) -> int:
        """How many clients have a lease."""
        return len(self._held)

    def granted(self, session_id: str) -> Granted | None:
        """Return the lease of this session, or None if no client of this gate has it."""
        granted = (lease.granted for lease in self._held.values())
        return next((lease for lease in granted if lease is not None and lease.session_id == session_id), None)

    def address_full(self, address: str | None) -> bool:
        """Return whether the limit of waiting clients for this address is reached."""
        return self._queue.refusal(address) == "address_full"

    @contextmanager
    def asking(self, claims: Claims, address: str | None = None) -> Iterator[SlotRequest]:
        """Keep a client in the queue for a slot during the block. Afterwards an unused lease is given back.

        Raises NotAdmitted if the queue or the address's share is full, or the gate drains.
        """
        request = SlotRequest(secrets.token_hex(8), claims, trio.current_time())
        self._requests[request.sid] = request
        try:
            self._apply(self._queue.reserve(request.sid, trio.current_time(), address))
            if self._queue.has(request.sid) == "waiting":
                assert self._nursery is not None, "Allocation.run has not begun"
                lease = HeldLease()
                self._pending.append(lease)
                self._nursery.start_soon(self._hold, lease)
            yield request
        finally:
            self._leave(request)

    def _leave(self, request: SlotRequest) -> None:
        del self._requests[request.sid]
        if self._queue.has(request.sid) == "waiting":
            self._apply(self._queue.release(request.sid, trio.current_time()))
            if len(self._pending) > self._queue.waiting:
                self._pending.pop().give_up()
        elif (held := self._held.get(request.sid)) is not None and not request.kept:
            held.give_up()

    def resize(self, most: int) -> None:
        """Change the most clients that may wait. Clients that wait already may stay."""
        self._queue.queue_limit = most

    def drain(self) -> None:
        """Grant no more slots, and refuse all waiting clients. Sessions go on."""
        self._apply(self._queue.drain())
        for lease in self._pending:
            lease.give_up()

    async def all_claimed(self) -> None:
        """Wait until the client of each lease has come to its server, or the lease has ended.

        A server ends a lease that no client has claimed within `claim_within`.
        """
        while not all(lease.claimed or lease.given_up for lease in self._held.values()):
            await self._settled.wait()

    # ---- leases -------------------------------------------------------------------------------------------------------

    async def _hold(self, lease: HeldLease) -> None:
        """Task: one lease, from its request until its slot is free or it is lost."""
        await lease.hold(self._lessor, lambda event: self._on_event(lease, event))
        self._forget(lease)
        if lease.silent and lease.granted is not None:
            await self._lessor.silent(lease.granted)

    def _on_event(self, lease: HeldLease, event: LeaseEvent) -> None:
        if isinstance(event, Granted):
            self._granted(lease)
        elif isinstance(event, Ended):
            self.metrics.ended[event.reason] += 1
        elif isinstance(event, LeaseLost):
            self.metrics.lost += 1
            if lease.granted is not None:
                log.warning("a lease was lost at %s: %s", lease.granted.replica, event)
            elif (more := self._not_granted.ending()) is not None:
                log.warning("no server could grant a lease: %s%s", event, more)
        else:
            self._settled.set()

    def _granted(self, lease: HeldLease) -> None:
        if lease in self._pending:
            self._pending.remove(lease)
        # A lease that was cancelled a moment ago may still be granted. A client that got it would lose it at once.
        if lease.given_up or self._queue.open != "open" or self._queue.waiting == 0:
            lease.give_up()
            return
        self._apply(self._queue.resize(self._queue.slots + 1, trio.current_time()), lease)

    def _forget(self, lease: HeldLease) -> None:
        """Forget a lease that has ended, or that is not requested any more."""
        if lease in self._pending:
            self._pending.remove(lease)
        holder = next((sid for sid, held in self._held.items() if held is lease), None)
        if holder is not None:
            del self._held[holder]
            self._apply(self._queue.resize(self._queue.slots - 1, trio.current_time()))
            self._apply(self._queue.release(holder, trio.current_time()))
            self._settled.set()

    # ---- clients ------------------------------------------------------------------------------------------------------

    def _apply(self, changes: list[Change], lease: HeldLease | None = None) -> None:
        """Apply the queue's changes to the requests. `lease` is that of the client that is admitted, one at most."""
        for change in changes:
            request = self._requests.get(change.sid)
            if request is None:
                continue
            if change.kind == "moved":
                request.position, request.total = change.position, change.total
            elif change.kind == "admitted":
                assert lease is not None
                self._admit(request, lease)
            else:
                request.refused = change.kind
                request.decided.set()
            request.changed.set()

    def _admit(self, request: SlotRequest, lease: HeldLease) -> None:
        self._held[request.sid] = lease
        granted, claims = lease.granted, request.claims
        assert granted is not None
        ticket = issue_ticket(
            granted.key, session=granted.session_id, expires=granted.claim_within, subject=claims.subject,
            max_session=claims.session_length,
        )  # fmt: skip
        request.admitted = Admitted(granted.url, ticket, granted.session_id, granted.claim_within)
        request.position = request.total = 0
        request.decided.set()
        self.metrics.allocation.add(trio.current_time() - request.asked_at)
        log.info("session %s is at %s", granted.session_id, granted.replica)
