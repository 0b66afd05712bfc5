"""Slots of arrays in memory that two processes map: examples, and orders of calls that hypothesis makes up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reactor_trio.memory import shared_arrays
from reactor_trio.memory.shared_arrays import MOST_KEPT
from reactor_trio.memory.shared_mapping import PAGE, SharedMapping
from tests.memory.two_processes import Bytes, TwoProcesses, place_of, two_processes


def on_another_thread(run: Callable[[], object]) -> None:
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_slot_is_used_again_when_both_have_let_go() -> None:
    with two_processes(16 * PAGE) as ends:
        mine = ends.make(PAGE, 1)
        assert mine is not None
        place = place_of(mine)
        seen, part = ends.see(mine), ends.see(mine[5:])
        del mine
        assert next_place(ends) != place
        del seen
        assert next_place(ends) != place
        assert (part == 1).all()
        del part
        assert next_place(ends, told=False) != place
        assert next_place(ends) == place


def next_place(ends: TwoProcesses, *, told: bool = True) -> range:
    """Where the next array would lie."""
    if told:
        ends.deliver()
    made = ends.make(PAGE, 2)
    assert made is not None
    return place_of(made)


def test_of_free_slots_the_newest_keep_their_pages_and_the_others_give_them_back_without_another_array() -> None:
    with two_processes(64 * PAGE) as ends:
        made = [ends.make(PAGE, 1) for _ in range(40)]
        seen = [ends.see(array) for array in made if array is not None]
        assert ends.in_memory() == ends.arrays.taken == 40 * PAGE
        made.clear()
        seen.clear()
        assert ends.in_memory() == 40 * PAGE
        ends.deliver()
        assert ends.in_memory() == ends.arrays.taken == MOST_KEPT * PAGE


def test_only_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_arrays, "MOST_KEPT_BYTES", 5 * PAGE)
    with two_processes(64 * PAGE) as ends:
        made = [ends.make(2 * PAGE, 1) for _ in range(10)]
        assert ends.in_memory() == 20 * PAGE
        made.clear()
        ends.deliver()
        assert ends.in_memory() == ends.arrays.taken == 4 * PAGE


def test_kept_memory_makes_room_for_an_array_of_another_size() -> None:
    with two_processes(8 * PAGE) as ends:
        small = [ends.make(PAGE, 1) for _ in range(8)]
        assert all(array is not None for array in small)
        assert ends.make(PAGE) is None
        small.clear()
        large = ends.make(8 * PAGE, 2)
        assert large is not None
        assert ends.in_memory() == ends.arrays.taken == 8 * PAGE


def test_an_array_is_shown_only_if_it_lies_in_the_memory_row_after_row() -> None:
    with two_processes(8 * PAGE) as ends:
        made = ends.arrays.empty((256, 256), np.dtype(np.uint8))
        assert made is not None
        assert ends.arrays.show(made[3:5]) is not None
        assert ends.arrays.show(made.T) is None
        assert ends.arrays.show(np.zeros(PAGE, np.uint8)) is None


def test_a_kept_slot_serves_arrays_of_half_its_size_and_more() -> None:
    with two_processes(64 * PAGE) as ends:
        ends.make(8 * PAGE)
        half = ends.make(4 * PAGE)
        assert ends.arrays.taken == 8 * PAGE
        del half
        less = ends.make(4 * PAGE - 1)
        assert less is not None
        assert ends.arrays.taken == 12 * PAGE


def test_arrays_of_any_size_one_after_another_find_room() -> None:
    with two_processes(64 * PAGE) as ends:
        for pages in (64, 3, 33, 10) * 20:
            assert ends.make(pages * PAGE) is not None


def test_finalizers_may_run_inside_of_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector runs them wherever an object is made, also where the lock is held."""
    held: list[Bytes | None] = []

    def dropping(make: Callable[..., Bytes]) -> Callable[..., Bytes]:
        def array(*given: Any) -> Bytes:
            held.clear()
            return make(*given)

        return array

    with two_processes(64 * PAGE) as ends:
        monkeypatch.setattr(SharedMapping, "array", dropping(SharedMapping.array))
        for _ in range(200):
            held.append(ends.make(PAGE))
        held.clear()
        assert ends.make(64 * PAGE) is not None


class Shared:
    """An array that is in use: in the process that made it, in the other, or in both."""

    def __init__(self, mine: Bytes, value: int) -> None:
        self.place, self.size, self.value = place_of(mine), mine.nbytes, value
        self.mine: list[Bytes] = [mine]
        self.seen: list[Bytes] = []


#: bytes: pictures of four sizes, a few of them in a batch
SIZES = [size * batch for size in (40_000, 118_000, 265_000, 1_060_000) for batch in (1, 2, 3)]
BOUND = 8 * 1024 * 1024


class SharedArraysMachine(RuleBasedStateMachine):
    """Two processes that make, show, see, keep and drop arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.shared: list[Shared] = []
        self.value = 0

    @initialize()
    def begin(self) -> None:
        self.ends: TwoProcesses = self.stack.enter_context(two_processes(BOUND))

    def teardown(self) -> None:
        try:
            if hasattr(self, "ends"):
                while self.shared:  # hypothesis may hold the objects themselves
                    self.release(self.shared[0], here=True, there=True)
                self.ends.deliver()
                assert self.ends.arrays.taken <= MOST_KEPT * 2 * max(SIZES)
                assert self.ends.make(BOUND) is not None, "all of it can be used again"
                assert self.ends.in_memory() == 0, "what another size needs keeps no pages"
        finally:
            self.stack.close()

    @rule(size=st.sampled_from(SIZES), tracks=st.integers(1, 3))
    def make(self, size: int, tracks: int) -> None:
        for _ in range(tracks):
            self.value = self.value % 255 + 1
            in_use = sum(one.size + slack(one.size) for one in self.shared)
            made = self.ends.make(size, self.value)
            if made is None:
                assert in_use + size + PAGE > BOUND, "there was room"
            else:
                self.shared.append(Shared(made, self.value))

    @precondition(lambda self: any(one.mine for one in self.shared))
    @rule(data=st.data(), part=st.booleans())
    def show(self, data: st.DataObject, part: bool) -> None:
        one = data.draw(st.sampled_from([one for one in self.shared if one.mine]))
        one.seen.append(self.ends.see(one.mine[0][one.size // 2 :] if part else one.mine[0]))

    @precondition(lambda self: self.shared)
    @rule(data=st.data(), here=st.booleans(), elsewhere=st.booleans(), view=st.booleans())
    def drop(self, data: st.DataObject, here: bool, elsewhere: bool, view: bool) -> None:
        one = data.draw(st.sampled_from(self.shared))
        arrays = one.mine if here else one.seen
        assert all((array == one.value).all() for array in arrays)
        if view:  # it holds the whole
            arrays[:] = [array[-100:] for array in arrays]
            return
        del arrays
        run = partial(self.release, one, here=here, there=not here)
        on_another_thread(run) if elsewhere else run()

    def release(self, one: Shared, *, here: bool, there: bool) -> None:
        if here:
            one.mine.clear()
        if there:
            one.seen.clear()
        if not one.mine and not one.seen:
            self.shared.remove(one)

    @rule()
    def deliver(self) -> None:
        self.ends.deliver()

    @invariant()
    def no_two_overlap(self) -> None:
        places = sorted((one.place for one in self.shared), key=lambda place: place.start)
        assert all(one.stop <= other.start for one, other in pairwise(places))

    @invariant()
    def it_has_its_bound(self) -> None:
        if hasattr(self, "ends"):
            assert self.ends.in_memory() <= self.ends.arrays.taken <= BOUND


def slack(size: int) -> int:
    """By how much the slot of an array may be larger."""
    return max(size, PAGE)


TestSharedArraysMachine = SharedArraysMachine.TestCase
TestSharedArraysMachine.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
