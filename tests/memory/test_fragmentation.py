"""How many addresses arrays of a video's sizes need: free ranges between those in use must not add up."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor_trio.memory.free_ranges import FreeRanges
from reactor_trio.memory.shared_mapping import PAGE

MIB = 1024 * 1024
#: bytes of a frame of 480p, 720p, 1080p and 4K, as a slot has them
FRAMES = [-(-height * width * 3 // PAGE) * PAGE for height, width in ((480, 854), (720, 1280), (1080, 1920), (2160, 3840))]
#: what one model has in use at most
BOUND = 2048 * MIB


class Addresses:
    """Free addresses without a memory, and the ranges that are in use."""

    def __init__(self) -> None:
        self.free = FreeRanges(range(100 * BOUND))
        self.used: list[tuple[int, int]] = []
        self.bytes = 0
        #: the addresses that were ever used, from the first to the last
        self.span = 0

    def take(self, size: int) -> bool:
        if self.bytes + size > BOUND:
            return False
        start = self.free.take(size)
        assert start is not None
        self.used.append((start, size))
        self.bytes += size
        self.span = max(self.span, start + size)
        return True

    def give(self, index: int) -> None:
        self.used[index], self.used[-1] = self.used[-1], self.used[index]
        start, size = self.used.pop()
        self.bytes -= size
        self.free.give(start, size)


def test_free_ranges_are_joined_again() -> None:
    free = FreeRanges(range(10, 110))
    places = [free.take(10) for _ in range(10)]
    assert places == list(range(10, 110, 10))
    assert free.take(1) is None
    for place in (30, 50, 40, 100, 10, 20, 90, 70, 60, 80):
        free.give(place, 10)
    assert free.take(100) == 10
    assert free.take(1) is None
    free.give(10, 100)
    assert [free.take(60), free.take(60), free.take(40)] == [10, None, 70]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 16))
@settings(max_examples=40, deadline=None)
def test_models_that_change_their_size_need_at_most_twice_their_bytes(seed: int, tracks: int, batch: int) -> None:
    """Several tracks of several sizes; frames and batches end in any order; sizes change now and then."""
    random = Random(seed)
    addresses = Addresses()
    for _ in range(30):
        sizes = [random.choice(FRAMES) * random.randint(1, batch) for _ in range(tracks)]
        for _ in range(random.randrange(40)):
            for size in sizes:
                while not addresses.take(size):
                    addresses.give(random.randrange(len(addresses.used)))
        for _ in range(random.randrange(len(addresses.used) + 1)):
            addresses.give(random.randrange(len(addresses.used)))
    assert addresses.span <= 2 * BOUND


@pytest.mark.parametrize("sizes", [FRAMES, FRAMES[::-1], [PAGE, *FRAMES, 16 * FRAMES[-1]]])
def test_the_worst_that_a_change_of_size_can_leave_is_below_the_addresses_of_a_half(sizes: list[int]) -> None:
    """After each size only as many are kept as leave no room between them for one of the next."""
    addresses = Addresses()
    for size, following in zip(sizes, [*sizes[1:], sizes[0]], strict=True):
        while addresses.take(size):
            pass
        addresses.used.sort(reverse=True)
        kept_end = 0
        for index in range(len(addresses.used) - 1, -1, -1):  # from the lowest on; `give` moves only those already seen
            start, length = addresses.used[index]
            if start + length - kept_end < following:
                addresses.give(index)
            else:
                kept_end = start + length
    assert addresses.span <= 4 * BOUND
