"""The moving drawings of docs/understand are what traces in virtual time say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from benchmarks import timelines

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


async def test_a_block_is_made_at_once_and_shown_evenly(autojump_clock):
    found = await timelines.trace(None, 2 * timelines.BLOCK)
    assert [round(at, 9) for at, _red in found.shown] == [round(0.4 + 0.05 * number, 9) for number in range(16)]


async def test_a_command_in_the_middle_of_a_step_shows_with_the_block_after_it(autojump_clock):
    found = await timelines.trace(timelines.SENT, 5 * timelines.BLOCK)
    assert [step.red for step in found.steps[:5]] == [0, 0, 0, timelines.RED, timelines.RED]
    assert round(found.acknowledged, 9) == 1.2
    assert round(next(at for at, red in found.shown if red), 9) == 1.6


async def test_pictures_on_a_slow_link_stay_as_young(autojump_clock):
    found = await timelines.slow_link(16)
    assert {round(arrived - made, 2) for _number, made, arrived in found[-6:]} == {0.86}
    assert {later[0] - earlier[0] for earlier, later in pairwise(found[-6:])} == {3}


def test_the_files_are_what_the_traces_say():
    for name, text in timelines.drawings().items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, f"{name}: python -m benchmarks.timelines docs/pictures"
