"""Slots and queue: examples, and orders of calls that hypothesis makes up."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from reactor_trio.admission import Admission, Change, NotAdmitted


def opened(slots: int = 1, queue: int = 2) -> Admission:
    admission = Admission(slots, queue)
    admission.start_admitting(0.0)
    return admission


def test_first_come_first_served_with_positions() -> None:
    admission = opened()
    assert admission.reserve("a", 0) == [Change("a", "admitted")]
    assert admission.reserve("b", 0) == [Change("b", "moved", 1, 1)]
    assert admission.reserve("c", 0) == [Change("b", "moved", 1, 2), Change("c", "moved", 2, 2)]
    with pytest.raises(NotAdmitted) as refused:
        admission.reserve("d", 0)
    assert refused.value.reason == "full"
    admission.claim("a", 1)
    assert admission.release("a", 2) == [Change("b", "admitted"), Change("c", "moved", 1, 1)]


def test_a_slot_counts_from_its_reservation() -> None:
    admission = opened()
    admission.reserve("a", 0)
    assert admission.reserve("b", 0)[0].kind == "moved"  # not yet claimed, and still not free


def test_a_client_that_leaves_the_queue_moves_the_others() -> None:
    admission = opened()
    for sid in "abc":
        admission.reserve(sid, 0)
    assert admission.release("b", 1) == [Change("c", "moved", 1, 1)]
    assert admission.release("b", 1) == []


def test_an_unclaimed_reservation_runs_out() -> None:
    admission = opened()
    admission.reserve("a", 0)
    admission.reserve("b", 0)
    assert admission.next_deadline == 10
    assert admission.expire(9.9) == []
    assert admission.expire(10) == [Change("a", "unclaimed"), Change("b", "admitted")]
    with pytest.raises(NotAdmitted):
        admission.claim("a", 10)


def test_no_client_is_admitted_before_the_doors_open_or_during_a_drain() -> None:
    admission = Admission(1, 2)
    assert admission.refusal() == "not_ready"
    with pytest.raises(NotAdmitted):
        admission.reserve("a", 0)
    admission.start_admitting(0.0)
    for sid in "ab":
        admission.reserve(sid, 0)
    admission.claim("a", 0)
    assert admission.drain() == [Change("b", "draining")]
    assert admission.refusal() == "draining"
    assert admission.release("a", 1) == []


def test_without_a_queue_the_second_is_refused() -> None:
    admission = opened(queue=0)
    admission.reserve("a", 0)
    assert admission.refusal() == "full"


def test_a_takeover_comes_next_and_needs_no_room_in_the_queue() -> None:
    admission = opened(queue=1)
    admission.reserve("a", 0)
    admission.claim("a", 0)
    admission.reserve("b", 0)
    assert admission.take_over("c", "a", 1) == [
        Change("a", "taken_over"), Change("c", "moved", 1, 2), Change("b", "moved", 2, 2),
    ]  # fmt: skip
    assert admission.take_over("d", "c", 1) == [Change("c", "taken_over"), Change("d", "moved", 1, 2)]
    assert admission.refusal() == "full"
    assert admission.release("a", 2) == [Change("d", "admitted"), Change("b", "moved", 1, 1)]
    assert admission.take_over("e", "d", 3) == [Change("d", "taken_over"), Change("e", "admitted")]
    admission.drain()
    with pytest.raises(NotAdmitted):
        admission.take_over("f", "e", 4)


class AdmissionMachine(RuleBasedStateMachine):
    """Compared with a plain model: a list in order of arrival."""

    sids = Bundle("sids")

    @initialize(slots=st.integers(1, 3), queue=st.integers(0, 3))
    def begin(self, slots: int, queue: int) -> None:
        self.admission = opened(slots, queue)
        self.slots, self.queue = slots, queue
        self.inside: list[str] = []  # reserved or live
        self.line: list[str] = []
        self.told: dict[str, tuple[int, int]] = {}
        self.now = 0.0
        self.count = 0
        self.extra = 0  # those that took over from a session need no room in the queue

    @rule(target=sids)
    def reserve(self) -> str:
        self.count += 1
        sid = f"s{self.count}"
        full = len(self.inside) == self.slots and len(self.line) >= self.queue
        assert (self.admission.refusal() is None) != full
        if full:
            with pytest.raises(NotAdmitted):
                self.admission.reserve(sid, self.now)
        else:
            self.line.append(sid)
            self.admitted(self.admission.reserve(sid, self.now))
        return sid

    @rule(sid=sids)
    def claim(self, sid: str) -> None:
        try:
            self.admission.claim(sid, self.now)
        except NotAdmitted:
            return
        assert sid in self.inside

    @rule(sid=sids)
    def release(self, sid: str) -> None:
        changes = self.admission.release(sid, self.now)
        for group in (self.inside, self.line):
            if sid in group:
                group.remove(sid)
        self.admitted(changes)

    @rule(target=sids, other=sids)
    def take_over(self, other: str) -> str:
        self.count += 1
        sid, before = f"s{self.count}", self.admission.has(other)
        if before is None:
            with pytest.raises(ValueError, match="has nothing"):
                self.admission.take_over(sid, other, self.now)
            return sid
        told, *changes = self.admission.take_over(sid, other, self.now)
        assert told == Change(other, "taken_over")
        if before == "waiting":
            self.line[self.line.index(other)] = sid
        else:
            self.line.insert(0, sid)
        if before == "reserved":
            self.inside.remove(other)
        self.extra += before == "live"
        self.admitted(changes)
        assert self.admission.has(other) == (before if before == "live" else None), "a session unwinds first"
        return sid

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        changes = self.admission.expire(self.now)
        for change in changes:
            if change.kind == "unclaimed":
                self.inside.remove(change.sid)
        self.admitted(changes)

    def admitted(self, changes: list[Change]) -> None:
        for change in changes:
            if change.kind == "admitted":
                assert change.sid == self.line.pop(0), "first come, first served"
                self.inside.append(change.sid)
        self.told = {sid: told for sid, told in self.told.items() if sid in self.line}
        self.told |= {c.sid: (c.position, c.total) for c in changes if c.kind == "moved"}
        assert self.told == {sid: (place, len(self.line)) for place, sid in enumerate(self.line, 1)}

    @invariant()
    def never_more_than_the_slots(self) -> None:
        admission = self.admission
        assert admission.live + len(admission._reserved) == len(self.inside) <= self.slots
        assert admission.waiting == len(self.line) <= self.queue + self.extra
        assert not (self.line and len(self.inside) < self.slots), "nobody waits beside a free slot"


TestAdmissionMachine = AdmissionMachine.TestCase
TestAdmissionMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
