"""A day of people, a queue and replicas, as a heap of events, with the queue's promises checked after each one.

The queue is the server's own `Admission`, which knows neither loop nor clock: an event's moment is its argument. So a plain
heap drives it, and a virtual clock with tasks would add only their scheduling: nothing here waits in the middle of
something, a day of 100 000 events takes seconds, and their order is exact.

A replica is starting, then serving, then perhaps draining. One `Admission` stands for all: its slots are those of the
replicas that serve, and of those that drain the ones still taken, which go one by one as their sessions end. Which replica a
place is on is the model's own book, kept apart from the counts in `Admission`, so that each can show the other wrong.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.day_people import Person
from benchmarks.day_scaling import DECIDE_EVERY, Autoscaler, Rule
from reactor_trio.admission import Admission, Change, NotAdmitted

#: `watched` to its end, `abandoned` the queue, `unclaimed` in time, its replica failed, or `no_room` in the queue
End = Literal["watched", "abandoned", "unclaimed", "replica_failed", "no_room"]


class PromiseBroken(AssertionError):
    """The queue did what it must never do; when and what."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What runs; times in seconds.

    Attributes:
        slots: sessions of one replica.
        start: from the decision to start a replica until it serves: a machine, the process, the model's load.
        life: mean time until a replica that serves fails.
        queue, claim_ttl: as for `Admission`.
        victims: who drains when there are too many: the `newest`, or the one with the `fewest` sessions.
        placement: a session goes to the replica with the fewest others (`spread`) or the most (`pack`).
    """

    slots: int = 4
    start: float = 60.0
    life: float = 48 * 3600.0
    queue: int = 500
    claim_ttl: float = 10.0
    victims: Literal["newest", "fewest"] = "newest"
    placement: Literal["spread", "pack"] = "spread"


@dataclass(eq=False)
class Replica:
    """One replica and who is on it."""

    number: int
    phase: Literal["starting", "serving", "draining", "gone"] = "starting"
    sids: set[str] = field(default_factory=set)


@dataclass
class Visit:
    """One person's way."""

    person: Person
    admitted_at: float | None = None
    begun: bool = False
    replica: Replica | None = None
    told: tuple[int, int] | None = None
    end: End | None = None


@dataclass
class Figures:
    """What came of a day; times in seconds."""

    ends: Counter[End] = field(default_factory=Counter)
    #: of each one who was given a place
    waits: list[float] = field(default_factory=list)
    #: of replicas that start, serve or drain
    replica_time: float = 0.0
    #: of sessions
    busy_time: float = 0.0
    worst_queue: int = 0
    most_replicas: int = 0
    started: int = 0
    failed: int = 0
    events: int = 0


class Day:
    """One day.

    Args:
        people: who comes.
        seed: decides when replicas fail.
        admission: makes the queue.
    """

    def __init__(
        self, people: Sequence[Person], fleet: Fleet, rule: Rule, *, seed: int = 1,
        admission: Callable[[int, int, float], Admission] = Admission,
    ) -> None:  # fmt: skip
        self.figures = Figures()
        self.visits = {f"s{person.number}": Visit(person) for person in people}
        self._fleet = fleet
        self._autoscaler = Autoscaler(rule)
        self._seed = seed
        self._admission = admission(0, fleet.queue, fleet.claim_ttl)
        self._line: list[str] = []
        self._replicas: list[Replica] = []
        self._left = len(self.visits)
        self._now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0

    def run(self) -> Figures:
        """From the first moment, at which the least replicas serve, until the last person has gone. Raises PromiseBroken."""
        self._tell(self._admission.start_admitting(0.0))
        for _ in range(self._autoscaler.rule.min_replicas):
            self._start(0.0)
        for sid, visit in self.visits.items():
            self._at(visit.person.at, lambda sid=sid: self._arrive(sid))
        self._at(0.0, self._report)
        self._at(0.0, self._decide)
        while self._left:
            at, _, event = heapq.heappop(self._heap)
            self._pass(at)
            event()
            self._check()
        return self.figures

    # ---- people -------------------------------------------------------------------------------------------------------

    def _arrive(self, sid: str) -> None:
        self._line.append(sid)
        try:
            changes = self._admission.reserve(sid, self._now)
        except NotAdmitted:
            self._end(sid, "no_room")
            return
        self._tell(changes)
        if self.visits[sid].replica is None:
            self._at(self._now + self.visits[sid].person.patience, lambda: self._abandon(sid))

    def _abandon(self, sid: str) -> None:
        if sid in self._line:
            self._end(sid, "abandoned")

    def _admit(self, sid: str) -> None:
        if self._line[:1] != [sid]:
            raise self._broken(f"{sid} is let in, and {self._line[0] if self._line else 'nobody'} is first")
        self._line.pop(0)
        visit = self.visits[sid]
        visit.admitted_at, visit.replica = self._now, self._place()
        visit.replica.sids.add(sid)
        self.figures.waits.append(self._now - visit.person.at)
        self._at(self._now + self._fleet.claim_ttl, self._expire)
        if visit.person.claim < math.inf:
            self._at(self._now + visit.person.claim, lambda: self._claim(sid))

    def _claim(self, sid: str) -> None:
        visit = self.visits[sid]
        if visit.end is not None:
            return
        try:
            self._admission.claim(sid, self._now)
        except NotAdmitted:
            return  # too late; `expire` says so
        visit.begun = True
        self._at(self._now + visit.person.length, lambda: self._leave(sid))

    def _leave(self, sid: str) -> None:
        if self.visits[sid].end is None:
            self._end(sid, "watched")

    def _expire(self) -> None:
        # The slot of an unclaimed place on a draining replica goes with it: the next in line must not be given it.
        late = [sid for replica in self._of("draining") for sid in replica.sids if self._is_late(self.visits[sid])]
        self._admission.slots -= len(late)
        self._tell(self._admission.expire(self._now))

    def _is_late(self, visit: Visit) -> bool:
        assert visit.admitted_at is not None, "it is on a replica"
        return not visit.begun and self._now >= visit.admitted_at + self._fleet.claim_ttl

    def _end(self, sid: str, end: End) -> None:
        """Whatever `sid` has is given back, and the next is let in."""
        self._note_end(sid, end)
        self._tell(self._admission.release(sid, self._now))

    def _note_end(self, sid: str, end: End) -> None:
        visit = self.visits[sid]
        if visit.end is not None:
            raise self._broken(f"{sid} ends twice: {visit.end}, {end}")
        visit.end = end
        self.figures.ends[end] += 1
        self._left -= 1
        if sid in self._line:
            self._line.remove(sid)
        if (replica := visit.replica) is not None:
            replica.sids.discard(sid)
            if replica.phase == "draining" and not replica.sids:
                self._remove(replica)
            self._count_slots()

    def _tell(self, changes: list[Change]) -> None:
        for change in changes:
            match change.kind:
                case "admitted":
                    self._admit(change.sid)
                case "moved":
                    self.visits[change.sid].told = (change.position, change.total)
                case "unclaimed":
                    visit = self.visits[change.sid]
                    if visit.admitted_at is None or not self._is_late(visit):
                        raise self._broken(f"{change.sid} is unclaimed before its time")
                    self._note_end(change.sid, "unclaimed")
                case other:
                    raise self._broken(f"{change.sid} is told {other}")

    # ---- replicas -----------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        on_serving = sum(len(replica.sids) for replica in self._of("serving"))
        self._autoscaler.report(self._now, on_serving + len(self._line))
        self._at(self._now + self._autoscaler.rule.metrics_interval, self._report)

    def _decide(self) -> None:
        serving = self._of("serving")
        wanted, there = self._autoscaler.decide(len(serving)), self._of("starting") + serving
        for _ in range(wanted - len(there)):
            self._start(self._fleet.start)
        for replica in self._victims(len(there) - wanted):
            self._drain(replica)
        self._at(self._now + DECIDE_EVERY, self._decide)

    def _start(self, seconds: float) -> None:
        replica = Replica(self.figures.started)
        self._replicas.append(replica)
        self.figures.started += 1
        self.figures.most_replicas = max(self.figures.most_replicas, len(self._replicas))
        if seconds:
            self._at(self._now + seconds, lambda: self._serve(replica))
        else:
            self._serve(replica)

    def _serve(self, replica: Replica) -> None:
        if replica.phase != "starting":
            return
        replica.phase = "serving"
        lives = random.Random(f"{self._seed}/replica {replica.number}").expovariate(1.0) * self._fleet.life
        self._at(self._now + lives, lambda: self._fail(replica))
        self._count_slots()
        self._tell(self._admission.start_admitting(self._now))  # lets in whom there is room for now

    def _victims(self, count: int) -> list[Replica]:
        """Those that have not begun to serve go first, as nobody is on them."""
        if count <= 0:
            return []
        newest = [*reversed(self._of("starting")), *reversed(self._of("serving"))]
        if self._fleet.victims == "fewest":
            newest.sort(key=lambda replica: (replica.phase == "serving", len(replica.sids)))
        return newest[:count]

    def _drain(self, replica: Replica) -> None:
        replica.phase = "draining"
        if not replica.sids:
            self._remove(replica)
        self._count_slots()

    def _fail(self, replica: Replica) -> None:
        if replica.phase not in ("serving", "draining"):
            return
        self.figures.failed += 1
        lost = sorted(replica.sids)
        self._remove(replica)
        for sid in lost:
            self._note_end(sid, "replica_failed")
        self._count_slots()
        for sid in lost:
            self._tell(self._admission.release(sid, self._now))

    def _remove(self, replica: Replica) -> None:
        replica.phase = "gone"
        self._replicas.remove(replica)

    def _place(self) -> Replica:
        free = [replica for replica in self._of("serving") if len(replica.sids) < self._fleet.slots]
        if not free:
            raise self._broken("one is let in, and every slot is taken")
        best = min if self._fleet.placement == "spread" else max
        return best(free, key=lambda replica: len(replica.sids))

    def _of(self, phase: str) -> list[Replica]:
        return [replica for replica in self._replicas if replica.phase == phase]

    def _count_slots(self) -> None:
        self._admission.slots = self._fleet.slots * len(self._of("serving")) + sum(
            len(replica.sids) for replica in self._of("draining")
        )

    # ---- time, and the promises ---------------------------------------------------------------------------------------

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        self._scheduled += 1  # events of one moment happen in the order in which they were made
        heapq.heappush(self._heap, (moment, self._scheduled, event))

    def _pass(self, moment: float) -> None:
        seconds, self._now = moment - self._now, moment
        self.figures.replica_time += seconds * len(self._replicas)
        self.figures.busy_time += seconds * self._admission.live
        self.figures.events += 1

    def _check(self) -> None:
        admission, line = self._admission, self._line
        self.figures.worst_queue = max(self.figures.worst_queue, len(line))
        on_replicas = sum(len(replica.sids) for replica in self._replicas)
        if admission.waiting != len(line):
            raise self._broken(f"{len(line)} wait, and the queue says {admission.waiting}")
        if admission.live + admission.reserved != on_replicas:
            raise self._broken(f"{on_replicas} have a place, and the queue says {admission.live + admission.reserved}")
        if any(len(replica.sids) > self._fleet.slots for replica in self._replicas):
            raise self._broken("two sessions are in one slot")
        if line and sum(len(replica.sids) for replica in self._of("serving")) < self._fleet.slots * len(self._of("serving")):
            raise self._broken("one waits, and a slot is free")
        for position, sid in enumerate(line, 1):
            if self.visits[sid].told != (position, len(line)):
                raise self._broken(f"{sid} is number {position} of {len(line)}, and was told {self.visits[sid].told}")

    def _broken(self, what: str) -> PromiseBroken:
        return PromiseBroken(f"at {self._now:.3f} s: {what}")
