"""The ring of moments: its budget, how sparse the past becomes, and what can be taken back (rows 15, 16 of worlds.md)."""

from __future__ import annotations

import gc
import itertools
import tracemalloc

import hypothesis
import numpy as np
from hypothesis import strategies as st

from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.nodes import World
from reactor_trio.worlds.ring import Ring
from tests.worlds.kit import captured, model_of

WHAT = ["step", "step", "step", "rewind", "undo"]


def moment(step: int, *, age: float | None = None, steps: int | None = None, size: int = 100, blobs: tuple[bytes, ...] = ()):
    age, steps = step / 10 if age is None else age, step if steps is None else steps
    return World(step, steps, age, None, {}, None, {}, {id(each): each for each in blobs}, size)


def steps_of(worlds):
    return [world.step for world in worlds]


def ring_of(count: int, most_bytes: int = 10_000, seconds: float = 300.0) -> Ring:
    ring = Ring(most_bytes, seconds)
    for step in range(1, count + 1):
        assert ring.add(moment(step), 0.0)
    return ring


def test_a_ring_without_moments_has_none():
    ring = Ring(100, 300.0)
    assert ring.at_step(3) is ring.at_steps(3) is ring.at_age(3.0) is ring.undo(0.0) is None
    assert ring.past == ring.ahead == []


def test_the_newest_moment_at_or_before_is_found_and_further_back_the_oldest():
    ring = Ring(10_000, 300.0)
    for step, age in ((3, 0.5), (5, 0.7), (9, 1.5)):
        ring.add(moment(step, age=age, steps=step - 2), 0.0)
    assert [ring.at_step(step).step for step in (1, 3, 4, 5, 8, 9, 20)] == [3, 3, 3, 5, 5, 9, 9]
    assert [ring.at_steps(steps).step for steps in (-3, 1, 2, 3, 7)] == [3, 3, 3, 5, 9]
    assert [ring.at_age(age).step for age in (-1, 0.5, 0.69, 0.7, 3)] == [3, 3, 3, 5, 9]


def test_moments_ahead_are_reachable_until_a_step_is_made():
    ring = ring_of(5)
    before = ring.past[-1]
    ring.rewind(ring.at_step(2), before, 0.0)
    assert (steps_of(ring.past), steps_of(ring.ahead)) == ([1, 2], [3, 4, 5])
    assert ring.at_age(9.0).step == 2  # along the world's own past
    assert ring.at_step(4).step == 4
    ring.rewind(ring.at_step(4), before, 0.0)
    assert (steps_of(ring.past), steps_of(ring.ahead)) == ([1, 2, 3, 4], [5])
    ring.add(moment(6, age=0.5, steps=5), 0.0)
    assert (steps_of(ring.past), ring.ahead) == ([1, 2, 3, 4, 6], [])


def test_undo_returns_to_the_world_before_a_rewind_and_back_again():
    ring = ring_of(5)
    before = moment(7)  # after the newest moment: not each step has one
    ring.rewind(ring.at_step(2), before, 0.0)
    for step in (8, 9):
        ring.add(moment(step, age=step / 10, steps=step - 5), 1.0)
    assert steps_of(ring.past) == [1, 2, 8, 9]
    after = ring.past[-1]
    assert ring.undo(59.9) is before
    ring.rewind(before, after, 59.9)
    assert steps_of(ring.past) == [1, 2, 7]
    assert ring.undo(59.9) is after
    ring.rewind(after, before, 59.9)
    assert steps_of(ring.past) == [1, 2, 9]  # the moments of the other past are not its own; 8 went when 7 was taken back


def test_rewinds_in_a_row_have_one_undo_until_a_step_is_made():
    ring = ring_of(5)
    before = moment(7)
    for step in (4, 2, 3):
        ring.rewind(ring.at_step(step), before if step == 4 else ring.past[-1], step * 10.0)
        assert ring.undo(step * 10.0) is before
    assert ring.undo(89.9) is before  # a minute from the last one
    assert ring.bytes == 600
    ring.add(moment(8, age=0.4, steps=4), 50.0)
    after = ring.past[-1]
    ring.rewind(ring.at_step(1), after, 50.0)
    assert ring.undo(50.0) is after


def test_an_undo_that_began_in_time_is_done_even_if_it_takes_longer():
    """`@restored` may take seconds."""
    ring = ring_of(5)
    before = moment(7)
    ring.rewind(ring.at_step(2), before, 0.0)
    after = moment(8, age=0.2, steps=2)
    assert ring.undo(59.9) is before
    ring.rewind(before, after, 61.0)
    assert ring.past[-1] is before
    assert ring.undo(61.0) is after


def test_undo_at_once_keeps_what_is_ahead():
    ring = ring_of(5)
    before = ring.past[-1]
    ring.rewind(ring.at_step(2), before, 0.0)
    ring.rewind(before, ring.at_step(2), 0.0)
    assert (steps_of(ring.past), ring.ahead) == ([1, 2, 3, 4, 5], [])


def test_undo_ends_after_a_minute_and_its_memory_goes():
    ring = ring_of(3)
    ring.rewind(ring.at_step(1), moment(9), 5.0)
    assert ring.bytes == 400
    assert ring.undo(65.0) is None
    assert ring.bytes == 300


def test_what_is_older_than_the_seconds_of_the_ring_goes():
    ring = ring_of(100, seconds=1.0)
    assert steps_of(ring.past) == list(range(90, 101))


def test_a_moment_that_alone_is_too_large_is_not_kept():
    ring = ring_of(3, most_bytes=300)
    assert not ring.add(moment(4, size=301), 0.0)
    assert steps_of(ring.past) == [1, 2, 3]
    assert ring.add(moment(5, size=300), 0.0)
    assert steps_of(ring.past) == [5]


def test_the_place_stays_also_if_there_is_much_ahead_of_it():
    ring = ring_of(10, most_bytes=1000)
    place = ring.at_step(4)
    ring.rewind(place, moment(11, size=700), 0.0)
    assert ring.past[-1] is place
    assert ring.bytes <= 1000
    ring = ring_of(10, most_bytes=1000)
    place = ring.at_step(4)
    ring.rewind(place, moment(12, size=950), 0.0)
    assert (ring.past, ring.ahead, ring.undo(0.0)) == ([place], [], None)


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 400), st.sampled_from(WHAT)), max_size=120), st.integers(400, 4000)
)
def test_the_budget_holds_and_the_newest_is_there(script, most):
    """Random sizes, durations, rewinds: the bytes are those of what is kept, never above the budget."""
    ring, step, age = Ring(most, 300.0), 0, 0.0
    map_of_the_world = b"m" * 300
    for duration, size, what in script:
        if what == "step" or not ring.past:
            step, age = step + 1, age + duration
            made = moment(step, age=age, size=size, blobs=(map_of_the_world,) if size % 2 else ())
            assert ring.add(made, age) == (made.size <= most)
            if made.size <= most:
                assert ring.past[-1] is made
                assert ring.ahead == []
        else:
            to = ring.at_age(age - duration) if what == "rewind" else ring.undo(age)
            if to is None:
                continue
            ring.rewind(to, moment(step, age=age, size=size), age)
            assert ring.past[-1] is to
            age = to.age
        kept = {id(world): world for world in (*ring.past, *ring.ahead, ring.undo(age)) if world is not None}
        shared = any(world.blobs for world in kept.values())
        assert ring.bytes == sum(world.small_bytes for world in kept.values()) + 300 * shared
        assert ring.bytes <= most
        ages = [world.age for world in (*ring.past, *ring.ahead)]
        assert ages == sorted(ages)


@hypothesis.settings(max_examples=20, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(st.integers(0, 2**32), st.integers(32, 70), st.sampled_from(["even", "exponential", "pareto"]))
def test_a_gap_is_at_most_half_as_long_as_the_time_since(seed, count, rhythm):
    random = np.random.default_rng(seed)
    durations = {
        "even": np.ones, "exponential": lambda n: random.exponential(size=n), "pareto": lambda n: random.pareto(1.2, n)
    }  # fmt: skip
    ring, age, times = Ring(count * 100, float("inf")), 0.0, []
    for step, duration in enumerate(durations[rhythm](600), 1):
        age += float(duration)
        times.append(age)
        ring.add(moment(step, age=age), 0.0)
        past = ring.past
        for older, newer in itertools.pairwise(past):
            if newer.step > older.step + 1:  # moments between them have gone
                assert newer.age - older.age <= 0.5 * (age - older.age)
    assert len(ring.past) == count
    assert ring.past[0].step == 1


def test_64_moments_cover_ten_minutes_at_15_fps():
    ring = ring_of(9000, most_bytes=6400, seconds=float("inf"))
    past = ring.past
    assert (len(past), past[0].step, past[-1].step) == (64, 1, 9000)
    ratios = [(new.age - old.age) / (past[-1].age - old.age) for old, new in itertools.pairwise(past)][:-2]
    assert max(ratios) <= 0.5


def test_a_static_array_of_100_mb_among_50_moments_costs_100_mb_and_an_end_frees_all():
    model, copies, ring = model_of(), Copies(), Ring(1 << 30, 300.0)
    model.state._value = [np.zeros(100_000_000, np.uint8), np.zeros(1000)]
    tracemalloc.start()
    try:
        for step in range(50):
            model.state._value[1] += 1
            ring.add(captured(model, copies, step=step, steps=step, age=step / 10), 0.0)
        held, peak = tracemalloc.get_traced_memory()
        assert len(ring.past) == 50
        assert 100_000_000 <= ring.bytes < 101_000_000
        assert held < 101_000_000
        assert peak < 101_000_000
        del ring, copies
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
