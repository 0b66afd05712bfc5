"""Commands named for a hand that no hand reaches. `clients/web/test/hand-commands.test.ts` reads the same cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reactor_trio.kinds.hand_commands import AXES, BUTTONS, KEYS, unreachable

CASES = json.loads((Path(__file__).parent / "hand-commands.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case['name']}" for number, case in enumerate(CASES)])
def test_the_author_learns_which_name_was_meant(case):
    found = list(unreachable([case]))
    assert [each.remedy for each in found] == ([case["remedy"]] if "remedy" in case else [])
    for each in found:
        assert case["name"] in each.text


def test_what_a_hand_reaches_is_no_doubt():
    names = [*(f"key_{key}" for key in KEYS), *(f"gamepad_{button}" for button in BUTTONS)]
    axes = {"name": "gamepad_axes", "schema": {"properties": {each: {"type": "number"} for each in AXES}}}
    assert list(unreachable([*({"name": name, "schema": {}} for name in names), axes])) == []
