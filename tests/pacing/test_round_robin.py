"""Deficit round robin by step time: shares, order, and the longest wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor_trio.pacing import RoundRobin
from reactor_trio.pacing.round_robin import MOST_OWED

Cost = Callable[[], float]
milliseconds = st.integers(1, 200).map(lambda number: number / 1000)


class Seats(RoundRobin):
    """An order with the seats that ask, as its owner knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.asking: set[int] = set()

    def ask(self, seat: int) -> None:
        self.settle(seat)
        self.asking.add(seat)

    def withdraw(self, seat: int) -> None:
        self.asking.discard(seat)

    def leave(self, seat: int) -> None:
        self.asking.discard(seat)
        super().leave(seat)

    def go(self) -> int | None:
        """The seat whose turn it is, which asks no more; None if none asks."""
        if not self.asking:
            return None
        seat = self.next(self.asking)
        self.asking.remove(seat)
        return seat


def served(costs: Sequence[Cost], count: int) -> list[tuple[int, float]]:
    """Run seats that always ask. Returns the turns in order: the seat, and its time."""
    robin, out = Seats(), []
    for seat in range(len(costs)):
        robin.ask(seat)
    for _ in range(count):
        seat = robin.go()
        assert seat is not None
        out.append((seat, costs[seat]()))
        robin.used(*out[-1])
        robin.ask(seat)
    return out


def order(*costs: float, count: int = 24) -> str:
    return "".join("ABCDEFGH"[seat] for seat, _ in served([lambda cost=cost: cost for cost in costs], count))


def test_equal_steps_take_turns():
    assert order(0.01, 0.01, 0.01, count=12) == "ABCABCABCABC"


def test_steps_that_take_no_time_take_turns():
    assert order(0.0, 0.0, count=6) == "ABABAB"


def test_shorter_steps_run_more_often_and_evenly_spread():
    assert order(0.01, 0.03) == "ABABABAAABAAABAAABAAABAA"


def test_rounds_are_given_only_until_one_may_go():
    """Of 10 ms but for the third step of each: the first takes eight times as long, and the second twice as long."""
    steps = [iter([0.01, 0.01, third, *[0.01] * 12]) for third in (0.08, 0.02)]
    session_copies = served([lambda one=one: next(one) for one in steps], 14)
    assert "".join("AB"[seat] for seat, _ in session_copies) == "ABABABABBBABAB"


def test_after_a_round_a_seat_may_go_while_it_owes_half_of_its_usual_step():
    """The steps take 10 ms, but the fourth of A 15 ms, and the fifth of B 30 ms. B sits out once, for one round."""
    steps = [iter([0.01] * 3 + [0.015] + [0.01] * 12), iter([0.01] * 4 + [0.03] + [0.01] * 12)]
    turns = served([lambda one=one: next(one) for one in steps], 14)
    assert "".join("AB"[seat] for seat, _ in turns) == "ABABABABABAABA"


def test_a_seat_is_chosen_only_of_those_that_ask():
    robin = RoundRobin()
    for seat in (1, 2, 3):
        robin.settle(seat)
    assert [robin.next(asking) for asking in ({3}, {2, 3}, {1, 3}, {1, 2})] == [3, 2, 3, 1]


def test_a_seat_that_has_left_owes_nothing():
    robin = Seats()
    robin.used(2, 1.0)
    robin.ask(2)
    assert robin.go() == 2
    robin.leave(2)
    assert not robin.several
    robin.used(2, 1.0)
    robin.ask(2)
    robin.ask(3)
    assert robin.several
    assert [robin.go(), robin.go()] == [3, 2]


def test_a_first_step_is_free():
    robin = Seats()
    robin.ask(0)
    assert robin.go() == 0
    robin.used(0, 30.0)
    went = []
    robin.ask(0)
    robin.ask(1)
    for _ in range(6):
        seat = robin.go()
        assert seat is not None
        went.append(seat)
        robin.used(seat, 0.01)
        robin.ask(seat)
    assert went == [1, 0, 1, 0, 1, 0]


def test_one_stall_costs_a_few_steps_and_no_more():
    costs = iter([0.01] * 20 + [60.0] + [0.01] * 1000)
    session_copies = [seat for seat, _ in served([lambda: next(costs), lambda: 0.01], 400)]
    after = session_copies[session_copies.index(1, 41) :]
    assert after[:100].count(0) > 10
    assert session_copies[-40:].count(0) == pytest.approx(20, abs=4)


def test_an_idle_seat_saves_nothing_up():
    robin = Seats()
    for _ in range(10):
        robin.ask(0)
        assert robin.go() == 0
        robin.used(0, 0.01)
    for _ in range(1000):
        robin.ask(1)
        assert robin.go() == 1
        robin.used(1, 0.01)
    robin.ask(1)
    went = []
    for _ in range(10):
        robin.ask(0)
        seat = robin.go()
        assert seat is not None
        went.append(seat)
        robin.used(seat, 0.01)
        robin.ask(seat)
    assert sorted(went) == [0] * 5 + [1] * 5


@settings(max_examples=12, deadline=None)
@given(st.lists(milliseconds, min_size=2, max_size=8))
def test_shares_of_time_become_equal(costs: list[float]) -> None:
    count = int(400 * len(costs) * max(costs) / min(costs) / 4) + 400
    used = [0.0] * len(costs)
    for seat, seconds in served([lambda cost=cost: cost for cost in costs], min(count, 6_000)):
        used[seat] += seconds
    mean = sum(used) / len(used)
    assert max(abs(share - mean) for share in used) <= 3 * max(costs)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(milliseconds, min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["ask", "withdraw", "leave", "go", "go", "go"])), max_size=200),
    st.lists(st.floats(0.2, 5), min_size=7, max_size=7),
)
def test_no_seat_starves(costs: list[float], script: list[tuple[int, str]], noise: list[float]) -> None:
    """While a seat waits, each other seat uses no more time than its largest debt and a few steps."""
    robin, waiting = Seats(), {}
    longest = 5 * max(costs)
    for number, (seat, what) in enumerate(script):
        seat %= len(costs)
        if what == "ask":
            robin.ask(seat)
            waiting.setdefault(seat, dict.fromkeys(range(len(costs)), 0.0))
        elif what == "go" and (went := robin.go()) is not None:
            seconds = costs[went] * noise[number % 7]
            for passed in waiting.pop(went).values():
                assert passed <= (MOST_OWED + 4) * longest
            robin.used(went, seconds)
            for seen in waiting.values():
                seen[went] += seconds
        elif what in ("withdraw", "leave"):
            getattr(robin, what)(seat)
            waiting.pop(seat, None)
