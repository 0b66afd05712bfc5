"""`docs/contribute/design.md` lists the functions that a frame and a command pass.

A traced session passes just these, in this order.

The rule by which a function is listed is at the head of `tests/support/traced_ways.py`, which also writes the tables of the
page again after a change: `python -m tests.support.traced_ways --write`.
"""

from __future__ import annotations

import json
import re

import pytest
from tests.support import traced_ways, ways_page
from tests.support.traced_ways import NUMBERS, RECORDS, Trace
from tests.support.ways_page import LAST

PAGE = ways_page.PAGE.read_text(encoding="utf-8")
HOW = "the page is not what runs; `python -m tests.support.traced_ways --write` makes it so:"


@pytest.fixture(scope="module")
def traces() -> dict[str, dict[str, Trace]]:
    return traced_ways.traces()


@pytest.mark.parametrize("way", RECORDS)
def test_the_page_lists_the_functions_that_run(way: str, traces: dict[str, dict[str, Trace]]) -> None:
    """What the page lists runs, where it says and in its order; and what runs is listed."""
    parts = ways_page.expected(traces[way])
    said = ways_page.read(way, PAGE)
    wrong = [variant for variant, part in parts.items() if said[variant] != part]
    tables = ways_page.written(way, parts, PAGE)
    assert not wrong, "\n".join([HOW, *(f"\n{way}, {variant}:\n\n{tables[variant]}" for variant in wrong)])


@pytest.mark.parametrize("way", RECORDS)
def test_a_run_loop_in_a_process_differs_as_both_do(way: str, traces: dict[str, dict[str, Trace]]) -> None:
    """So the page needs no table of its own for it."""
    both = traces[way][LAST]
    assert {*both.rows, *both.looks} == ways_page.of_both(ways_page.expected(traces[way]))


@pytest.mark.parametrize("way", RECORDS)
def test_a_way_grows_no_longer(way: str, traces: dict[str, dict[str, Trace]]) -> None:
    """Rows, looks, functions that touch a record, functions that run. Helpers within a module count in the last two."""
    now = {variant: trace.numbers for variant, trace in traces[way].items()}
    assert not (more := traced_ways.grown({way: traces[way]})), "the way has grown: " + "; ".join(more)
    held = json.loads(NUMBERS.read_text(encoding="utf-8"))[way]
    assert held == now, "the way is shorter than `ways.json` says: run python -m tests.support.traced_ways --write"


def test_the_page_says_what_each_function_does() -> None:
    assert ways_page.untold(PAGE) == []


@pytest.mark.parametrize("way", RECORDS)
def test_the_page_names_the_records(way: str) -> None:
    (line,) = re.findall(r"^Records: (.*)$", ways_page.section(ways_page.TITLES[way], PAGE), re.MULTILINE)
    assert tuple(re.findall(r"`([\w.]+)`", line)) == RECORDS[way]


