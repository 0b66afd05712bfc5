"""The waiting room: runs the admission state machine on a Trio loop and notifies the clients that wait.

It also decides which client a new one may replace (`runtime.takeover`). Among the clients that the policy allows to replace,
one that waits goes before one with a session, so that of two new clients at once the later one stays. A session that already
ends for another reason cannot be replaced: its slot belongs to the queue.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import trio

from reactor_trio.admission import Admission, Change, NotAdmitted, RefusalReason
from reactor_trio.concurrency.lost_time import at, run_time
from reactor_trio.connection import ConnectRequest
from reactor_trio.protocol import EndReason

Takeover = Literal["never", "same_subject", "anyone"]


@dataclass(eq=False)
class RoomEntry:
    """One client's slot or position in the queue. Call `release` in any case after `WaitingRoom.enter`.

    Attributes:
        moved: called with position (from 1), total, and the seconds that the client waits at most (None: not known), at once
            if the client has to wait and again at each change.
        sent_away: called with the reason if the client will not be admitted, or if another client replaces it.
        end_reason: returns why the client is leaving; None if it stays.
    """

    sid: str
    room: WaitingRoom
    request: ConnectRequest
    moved: Callable[[int, int, float | None], None]
    sent_away: Callable[[EndReason], None]
    end_reason: Callable[[], EndReason | None]
    admitted: trio.Event = field(default_factory=trio.Event)

    def claim(self) -> None:
        """Occupy the reserved slot. Raises NotAdmitted."""
        self.room.admission.claim(self.sid, run_time())

    def release(self) -> None:
        """Free the slot or the position."""
        self.room.leave(self)


class WaitingRoom:
    """Drives an `Admission`; its methods do not wait.

    Args:
        takeover: which client a new one replaces when no slot is free.
        slot_free: called with a session id when its slot is free again, and with the reason if no client claimed the slot.
        session_ends: returns the latest end of each session that runs, infinity for one without an end.
        session_length: the longest that a session may last, infinity without a limit.

    Attributes:
        drain_reason: the end reason that clients get because the server goes down; None while it does not.
    """

    def __init__(
        self, admission: Admission, takeover: Takeover = "never",
        slot_free: Callable[[str, EndReason | None], object] = lambda _sid, _reason: None,
        session_ends: Callable[[], Iterable[float]] = tuple, session_length: float = math.inf,
    ) -> None:  # fmt: skip
        self.admission = admission
        self._session_ends, self._session_length = session_ends, session_length
        self._slot_free = slot_free
        self._takeover = takeover
        self._entries: dict[str, RoomEntry] = {}
        #: ends when the next reservation does
        self._sleep = trio.CancelScope()
        self.drain_reason: EndReason | None = None

    async def run(self) -> None:
        """Task: end reservations that are not claimed in time; until cancelled."""
        while True:
            with trio.move_on_at(at(self.admission.next_deadline)) as self._sleep:
                await trio.sleep_forever()
            self._tell(self.admission.expire(run_time()))

    def reserve(self, sid: str) -> None:
        """Reserve a slot for a session whose client will come. Raises NotAdmitted if none is free now."""
        self._tell(self.admission.reserve(sid, run_time(), wait=False))
        self._sleep.deadline = at(self.admission.next_deadline)

    def release(self, sid: str) -> bool:
        """Free a slot that was reserved ahead. Returns False if its client has come already."""
        if not self.promises(sid):
            return False
        self._tell(self.admission.release(sid, run_time()))
        return True

    def refusal(self, request: ConnectRequest) -> RefusalReason | None:
        """Return why this client would be refused now, None if it would be admitted or queued."""
        if request.claims.session_id is not None:
            return None if self.promises(request.claims.session_id) else "unclaimed"
        if self.admission.open == "open" and self._given_up_to(request) is not None:
            return None
        return self.admission.refusal(request.address)

    def longest_waits(self) -> list[float | None]:
        """Return how many seconds each client in the queue waits at most, in its order; None where that is not known."""
        now, length, waiting = trio.current_time(), self._session_length, self.admission.waiting
        claimed_by = now + self.admission.claim_ttl
        ends = [*self._session_ends(), *(claimed_by + length for _ in range(self.admission.reserved))]
        if self.admission.open != "open" or len(ends) < self.admission.slots:
            return [None] * waiting
        heapq.heapify(ends)
        for _ in range(len(ends) - self.admission.slots):  # there are fewer slots than before: these ends free none
            heapq.heappop(ends)
        waits: list[float | None] = []
        while len(waits) < waiting and not math.isinf(ends[0]):  # each client takes the slot that is free first
            waits.append(max(0.0, round(ends[0] - now, 3)))
            heapq.heapreplace(ends, ends[0] + length)
        return waits + [None] * (waiting - len(waits))

    def enter(self, entry: RoomEntry) -> None:
        """Give a client a slot or a position in the queue. Raises NotAdmitted."""
        sid, request, now = entry.sid, entry.request, run_time()
        if (reason := self.refusal(request)) is not None:
            raise NotAdmitted(reason)
        if sid == request.claims.session_id:
            self._entries[sid] = entry
            entry.admitted.set()
            return
        if (other := self._given_up_to(request)) is None:
            changes = self.admission.reserve(sid, now, request.address)
        else:
            changes = self.admission.take_over(sid, other.sid, now, request.address)
        self._entries[sid] = entry
        self._tell(changes)

    def leave(self, entry: RoomEntry) -> None:
        """Free a slot or a position, and admit the next client."""
        if self._entries.pop(entry.sid, None) is not None:
            self._tell(self.admission.release(entry.sid, run_time()))
            self._slot_free(entry.sid, None)

    def start_admitting(self) -> None:
        """The model is loaded: admit as many clients as there are slots."""
        self._tell(self.admission.start_admitting(run_time()))

    def resize(self, slots: int) -> None:
        """Change the number of slots. A client that has a slot keeps it."""
        self._tell(self.admission.resize(slots, run_time()))

    def stop_admitting(self) -> None:
        """The model is gone: admit no new clients. Those that wait keep their positions and get them again."""
        self.admission.stop_admitting()
        self.tell_again()

    def drain(self, reason: EndReason = "draining") -> None:
        """Admit no client any more, and end the wait of the others for this reason. The first reason stays."""
        self.drain_reason = self.drain_reason or reason
        self._tell(self.admission.drain())

    def tell_again(self) -> None:
        """Send the queue its positions again, because the reason for waiting has changed."""
        self._tell(self.admission.tell_again())

    def promises(self, sid: str) -> bool:
        """Return whether a slot is reserved for a session whose client has not come yet."""
        return sid not in self._entries and self.admission.has(sid) == "reserved"

    def _given_up_to(self, request: ConnectRequest) -> RoomEntry | None:
        """Return the entry that this new client takes over, if any."""
        if self._takeover == "never" or self.admission.free > 0:
            return None
        subject = request.claims.subject
        if self._takeover == "same_subject" and subject is None:
            return None
        given_up: dict[str | None, RoomEntry] = {}
        for entry in self._entries.values():
            meant = self._takeover == "anyone" or entry.request.claims.subject == subject
            if meant and entry.end_reason() in (None, "taken_over"):
                given_up.setdefault(self.admission.has(entry.sid), entry)
        return next((given_up[what] for what in ("waiting", "reserved", "live") if what in given_up), None)

    def _tell(self, changes: Sequence[Change]) -> None:
        waits = self.longest_waits() if any(change.kind == "moved" for change in changes) else []
        for change in changes:
            entry = self._entries.get(change.sid)
            if entry is None:
                if change.kind in ("unclaimed", "draining", "taken_over"):
                    self._slot_free(change.sid, self._end_reason(change.kind))
                continue
            if change.kind == "admitted":
                entry.admitted.set()
                self._sleep.deadline = at(self.admission.next_deadline)
            elif change.kind == "moved":
                entry.moved(change.position, change.total, waits[change.position - 1])
            else:
                entry.sent_away(self._end_reason(change.kind))

    def _end_reason(self, kind: Literal["unclaimed", "draining", "taken_over"]) -> EndReason:
        return self.drain_reason or kind if kind == "draining" else kind
