"""The simulated day: a short one by hand, many with seeds, and queues that break their promises and are caught."""

from __future__ import annotations

import math

import pytest
from benchmarks.day_model import Day, Fleet, PromiseBroken
from benchmarks.day_people import HOUR, Person, Traffic, people
from benchmarks.day_scaling import Autoscaler, Rule

from reactor_trio.admission import Admission

#: an hour with the crowd of a day, in which everything happens
HOUR_OF_TROUBLE = Traffic(
    sessions=400, seconds=HOUR, crowds=(1800.0,), crowd=4.0, patience=60.0, no_shows=0.1, slow=0.3, median=120.0
)
WEAK = Fleet(slots=3, start=20.0, life=900.0, queue=8)
RULE = Rule(target_ongoing_requests=3, min_replicas=1, max_replicas=12, upscale_delay=5.0, downscale_delay=30.0)


def person(number, at, length=100.0, patience=1000.0, claim=0.0):
    return Person(number, at, length, patience, claim)


# ---- by hand ----------------------------------------------------------------------------------------------------------


def test_a_short_day_by_hand():
    """One slot, then two: the second replica is decided on after 5 s of asking for it, and serves 20 s later.

    At 0 the first is let in. The second comes at 1 and waits: from the report at 10 on two replicas are wanted, from the
    decision at 15 (the sixth in a row) one starts, and at 35 it serves. The third waits from 2 until the first leaves at
    100. The fourth leaves the queue.
    """
    fleet = Fleet(slots=1, start=20.0, life=math.inf)
    rule = Rule(
        target_ongoing_requests=1, max_replicas=2, upscale_delay=5.0, downscale_delay=50.0, look_back_period=10.0
    )
    day = Day([person(0, 0.0), person(1, 1.0), person(2, 2.0), person(3, 3.0, patience=7.0)], fleet, rule)
    figures = day.run()
    assert figures.waits == [0.0, 34.0, 98.0]
    assert figures.ends == {"watched": 3, "abandoned": 1}
    assert figures.worst_queue == 3
    assert figures.most_replicas == figures.started == 2
    assert figures.busy_time == 300.0
    # one is wanted from the report at 140 on: the decision at 190, the 51st in a row, ends the second, which is empty
    assert figures.replica_time == 200.0 + (190.0 - 15.0)


def test_a_client_that_claims_late_or_never_loses_its_place_to_the_next():
    day = Day(
        [person(0, 0.0, claim=math.inf), person(1, 1.0, claim=10.0), person(2, 2.0, claim=9.5)],
        Fleet(slots=1, life=math.inf), Rule(min_replicas=1, max_replicas=1),
    )  # fmt: skip
    figures = day.run()
    assert figures.waits == [0.0, 9.0, 18.0]
    assert figures.ends == {"unclaimed": 2, "watched": 1}
    assert figures.busy_time == pytest.approx(100.0)


def test_an_unclaimed_place_on_a_draining_replica_goes_with_it():
    """Of three replicas of one slot the newest two drain at 10, one of them with a place that is never taken."""
    rule = Rule(
        target_ongoing_requests=1, max_replicas=3, upscale_delay=0.0, downscale_delay=0.0, look_back_period=10.0
    )
    fleet = Fleet(slots=1, start=1.0, life=math.inf, claim_ttl=15.0)
    comers = [person(0, 0.5, length=300.0), person(1, 0.5, length=6.0), person(2, 0.5, claim=math.inf)]
    later = [person(number, 21.0 + number / 10) for number in range(3, 6)]
    figures = Day(comers + later, fleet, rule).run()
    assert figures.ends == {"watched": 5, "unclaimed": 1}


def test_a_full_queue_takes_no_further_client():
    comers = [person(number, float(number)) for number in range(4)]
    figures = Day(comers, Fleet(slots=1, queue=2, life=math.inf), Rule(max_replicas=1)).run()
    assert figures.ends == {"watched": 3, "no_room": 1}
    assert figures.waits == [0.0, 99.0, 198.0]


# ---- people -----------------------------------------------------------------------------------------------------------


def test_a_day_of_people_is_the_traffic_that_was_asked_for():
    traffic = Traffic()
    everybody = people(traffic, 1)
    assert everybody == people(traffic, 1)
    assert everybody != people(traffic, 2)
    assert len(everybody) == pytest.approx(10_000, rel=0.03)
    assert [one.at for one in everybody] == sorted(one.at for one in everybody)
    assert all(60.0 <= one.length <= 1800.0 for one in everybody)
    by_hour = [sum(hour * HOUR <= one.at < (hour + 1) * HOUR for one in everybody) for hour in range(24)]
    # 1 - 0.8 cos of the hour's middle, times what makes the day 10 000; the crowd adds a quarter of an hour to hour 15
    assert by_hour[12] / by_hour[0] == pytest.approx(1.793 / 0.207, rel=0.2)
    crowd = sum(15 * HOUR <= one.at < 15 * HOUR + 600 for one in everybody)
    before = sum(15 * HOUR - 600 <= one.at < 15 * HOUR for one in everybody)
    assert crowd / before == pytest.approx(2.5, rel=0.25)
    assert sum(one.claim == math.inf for one in everybody) / len(everybody) == pytest.approx(0.02, abs=0.005)


# ---- the rule ---------------------------------------------------------------------------------------------------------


def decisions(rule, demands, running=lambda wanted: wanted):
    """What is wanted each second, of a demand reported each second."""
    scaler, wanted = Autoscaler(rule), []
    for now, demand in enumerate(demands):
        scaler.report(float(now), demand)
        wanted.append(scaler.decide(running(scaler.wanted)))
    return wanted


def test_up_after_the_delay_down_after_its_own():
    rule = Rule(upscale_delay=3.0, downscale_delay=5.0, look_back_period=1.0)
    assert decisions(rule, [2] + [5] * 5) == [1, 1, 1, 1, 3, 3]
    assert decisions(rule, [5] * 4 + [2] * 7) == [1, 1, 1, 3, 3, 3, 3, 3, 3, 1, 1]


def test_a_moment_of_the_other_direction_restarts_the_delay():
    rule = Rule(upscale_delay=3.0, downscale_delay=3.0, look_back_period=1.0)
    assert decisions(rule, [5, 5, 5, 2, 5, 5, 5, 5]) == [1, 1, 1, 1, 1, 1, 1, 3]


def test_demand_is_a_mean_over_the_window():
    rule = Rule(upscale_delay=0.0, look_back_period=4.0, target_ongoing_requests=1.0)
    assert decisions(rule, [1, 1, 1, 1, 9, 9, 9, 9]) == [1, 1, 1, 1, 3, 5, 7, 9]


def test_factors_and_bounds():
    rule = Rule(upscale_delay=0.0, downscale_delay=0.0, look_back_period=1.0, target_ongoing_requests=1.0, max_replicas=8)
    slow = Rule(**{**vars(rule), "upscaling_factor": 0.5, "downscaling_factor": 0.1})
    assert decisions(rule, [20, 20]) == [8, 8]
    assert decisions(slow, [5, 5, 5, 5, 1, 1, 1, 1, 1]) == [3, 4, 5, 5, 4, 3, 2, 1, 1]  # a step at least


# ---- promises ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victims", ["newest", "fewest"])
@pytest.mark.parametrize("placement", ["spread", "pack"])
@pytest.mark.parametrize("seed", range(5))
def test_no_promise_is_broken_in_an_hour_of_trouble(seed, victims, placement):
    everybody = people(HOUR_OF_TROUBLE, seed)
    fleet = Fleet(**{**vars(WEAK), "victims": victims, "placement": placement})
    figures = Day(everybody, fleet, RULE, seed=seed).run()
    assert figures.ends.total() == len(everybody)
    assert set(figures.ends) == {"watched", "abandoned", "unclaimed", "replica_failed", "no_room"}
    assert 0 < figures.busy_time < figures.replica_time * fleet.slots


class LastInFirstOut(Admission):
    def _advance(self, now):
        self._waiting = dict(reversed(self._waiting.items()))
        changes = super()._advance(now)
        self._waiting = dict(reversed(self._waiting.items()))
        return changes


class OneTooMany(Admission):
    @property
    def free(self):
        return super().free + 1 if self.slots > 4 else super().free


class Reluctant(Admission):
    @property
    def free(self):
        return super().free - (super().free == 1)


class TellsOnlyTheFirst(Admission):
    def _advance(self, now):
        return [change for change in super()._advance(now) if change.kind != "moved" or change.position == 1]


class ForgetsWhoIsUnclaimed(Admission):
    def expire(self, now):
        return [change for change in super().expire(now) if change.kind != "unclaimed"]


class ClaimsBeforeItsTime(Admission):
    def reserve(self, sid, now):
        return super().reserve(sid, now - 5)


@pytest.mark.parametrize(
    ("admission", "said"),
    [
        (LastInFirstOut, "is first|is number"),
        (OneTooMany, "every slot is taken"),
        (Reluctant, "one waits, and a slot is free"),
        (TellsOnlyTheFirst, "is number 2 of 2, and was told None"),
        (ForgetsWhoIsUnclaimed, "have a place, and the queue says"),
        (ClaimsBeforeItsTime, "is unclaimed before its time"),
    ],
)
def test_a_queue_that_breaks_a_promise_is_caught(admission, said):
    with pytest.raises(PromiseBroken, match=said):
        Day(people(HOUR_OF_TROUBLE, 1), WEAK, RULE, admission=admission).run()
