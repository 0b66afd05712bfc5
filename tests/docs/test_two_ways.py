"""`docs/design.md` lists the functions that a frame and a command pass; each of them exists, and runs where the page says.

One traced session, one client, shows it (`tests/support/traced_ways.py`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| `([\w.]+):([\w.<>]+)` \| ([^|]+) \|", re.MULTILINE)
#: section -> how many functions may stand in it, and how many records
WAYS = {"The way of a frame": (24, 5), "The way of a command": (18, 4)}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def traced() -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.traced_ways"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    functions: dict[str, list[str]] = json.loads(done.stdout)
    return functions


@pytest.mark.parametrize("title", WAYS)
def test_a_way_is_short_and_each_of_its_functions_runs_where_the_page_says(title: str, traced: dict[str, list[str]]) -> None:
    rows = ROW.findall(section(title))
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert 0 < len(rows) <= WAYS[title][0]
    missed = [f"{module}:{name}" for _, module, name, place in rows if place not in traced.get(f"{module}:{name}", ())]
    assert missed == []


@pytest.mark.parametrize("title", WAYS)
def test_the_records_of_a_way_exist_and_are_few(title: str) -> None:
    (line,) = re.findall(r"^Records: (.*)$", section(title), re.MULTILINE)
    records = re.findall(r"`([\w.]+)\.(\w+)`", line)
    assert 0 < len(records) <= WAYS[title][1]
    for module, name in records:
        assert isinstance(getattr(import_module(f"reactor_trio.{module}"), name), type)
