"""No message costs more than its length is worth: calls grow no faster than the input, and seconds neither."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from tests.fuzz.fuzzing import Target, plain
from tests.leftovers.loop_time import MOST_FOURFOLD, MOST_GROWTH, MOST_TIMES, Cell, calls, cells, plainly, seconds

CELLS = cells()
#: bytes from which on an input is left to the soak tests; they try all sizes
LARGEST = {"text": 64, "client": 64, "websocket": 8}
#: seconds of noise of the clock and of what one input costs, however short
NOISE = 0.002


def sizes_in_ci(cell: Cell) -> tuple[int, ...]:
    largest = LARGEST.get(cell.target().name, 1 << 20)
    return tuple(size for size in cell.sizes if size <= largest * 1024 or "any " in cell.shape)


def check_calls(cell: Cell, sizes: tuple[int, ...]) -> None:
    counts = calls(cell.target(), [cell.make(size) for size in sizes])
    for (small, before), (large, after) in pairwise(zip(sizes, counts, strict=True)):
        assert after <= MOST_GROWTH * before * large / small, f"{cell}: calls {counts} at {sizes} bytes"


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_calls_grow_no_faster_than_the_input(cell):
    check_calls(cell, sizes_in_ci(cell))


@pytest.mark.soak
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_calls_at_all_sizes(cell):
    check_calls(cell, cell.sizes)


@pytest.mark.soak
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_seconds_are_a_multiple_of_plain_decoding_and_do_not_grow_faster(cell):
    small, large = cell.sizes[-3], cell.sizes[-1]
    inputs = [cell.make(small), cell.make(large)]
    before, after = seconds(cell.target(), inputs)
    plain_after = math.inf if cell.plain is None else plainly(cell.plain(inputs[1]))
    print(f"\n{cell}: {before * 1e3:.1f} ms, {after * 1e3:.1f} ms, plainly {plain_after * 1e3:.1f} ms")
    assert after <= MOST_FOURFOLD * before * large / small / 4 + NOISE
    assert after <= MOST_TIMES * plain_after + NOISE


class Quadratic(Target):
    """Looks at each character once for each character."""

    name, share = "quadratic", 1

    def seeds(self):
        return [b"x"]

    def opened(self):
        async def run(data):
            for at in range(len(data)):
                for _ in range(at // 64):
                    len(data)
            return "fine"

        return plain(run)


class Copying(Quadratic):
    """Copies all of it for each character, in a call of C."""

    def opened(self):
        async def run(data):
            for _ in range(len(data) // 16):
                bytearray(data)
            return "fine"

        return plain(run)


def quadratic(target: type[Target]) -> Cell:
    return Cell(target, "any x", lambda size: b"x" * size, (4096, 8192, 16384), lambda data: lambda: bytearray(data))


def test_a_cell_can_fail():
    with pytest.raises(AssertionError, match="quadratic-any x: calls"):
        check_calls(quadratic(Quadratic), (4096, 8192))
    check_calls(quadratic(Copying), (4096, 8192))  # which only the seconds show


def test_each_target_of_the_fuzzer_has_cells():
    from tests.fuzz.run_fuzz import targets

    assert {cell.target().name for cell in CELLS} == set(targets()) - {"manifest"}  # a manifest is its author's own
    assert len({str(cell) for cell in CELLS}) == len(CELLS)
