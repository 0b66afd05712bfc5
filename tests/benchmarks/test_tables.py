"""The tables of a page come from what the benchmarks have found."""

from __future__ import annotations

import pytest
from benchmarks.tables import replaced

PAGE = """\
Words before.

<!-- compare: 480p: -->
| old | table |
|---|---|
| 1 | 2 |

Words between.

<!-- compare: bars -->

<!-- gap: batches -->
| kept |
|---|
"""
BAR = {"limit": 0.5, "unit": "times", "least": False}
FOUND = {
    "benchmarks": [
        {
            "name": "compare",
            "tables": [
                {
                    "title": "480p: ms",
                    "columns": ["", "fps", "met"],
                    "rows": [["ours", 29.456, "yes"], ["theirs", float("nan"), "NO"]],
                },
                {"title": "480p, batch 4: ms", "columns": [""], "rows": [["other"]]},
            ],
            "bars": [
                BAR | {"what": "ours", "value": 0.1, "met": True},
                BAR | {"what": "start", "value": 0.4571, "met": True},
                BAR | {"what": "rate", "value": 1234.5, "least": True, "unit": "fps", "met": False},
            ],
        }
    ]
}  # fmt: skip


def test_a_table_is_replaced_below_its_comment():
    text, missing = replaced(PAGE, FOUND)
    assert text.startswith("""\
Words before.

<!-- compare: 480p: -->
|  | fps | met |
| --- | ---: | --- |
| ours | 29.5 | yes |
| theirs | – | **NO** |

Words between.
""")
    assert missing == ["gap: batches"]
    assert text.endswith("<!-- gap: batches -->\n| kept |\n|---|\n")


def test_bars_are_those_that_no_table_has():
    text, _ = replaced(PAGE, FOUND)
    assert """\
<!-- compare: bars -->
|  | value | goal | met |
| --- | --- | --- | --- |
| start | 0.457 times | <= 0.5 | yes |
| rate | 1234 fps | >= 0.5 | **NO** |
""" in text


def test_once_more_changes_nothing():
    text, _ = replaced(PAGE, FOUND)
    assert replaced(text, FOUND)[0] == text


def test_a_comment_that_fits_two_tables_is_refused():
    with pytest.raises(ValueError, match=r"compare: 480p fits '480p: ms', '480p, batch 4: ms'"):
        replaced("<!-- compare: 480p -->\n", FOUND)
