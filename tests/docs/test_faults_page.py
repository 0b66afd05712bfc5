"""`docs/reference/faults.md` names tests that exist for each fault; pages that explain how to do something name none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_limits import ROOT, cells, functions

PAGE = ROOT / "docs" / "reference" / "faults.md"
#: `::name` alone is a test of the file that was named last in the row.
TEST = re.compile(r"`([\w/]*\w\.py)?::(test_\w+)`")
GUIDES = sorted(
    page
    for folder in ("start", "learn", "cookbook", "understand", "operate")
    for page in (ROOT / "docs" / folder).glob("*.md")
)


def named(cell: str) -> Iterator[tuple[str, str]]:
    file = ""
    for other, test in TEST.findall(cell):
        file = other.rpartition("/")[2] or file
        yield file, test


def missing(page: str, tests: Path) -> list[str]:
    """The page's rows without a test, and the tests that do not exist."""
    files = {path.name: path for path in tests.rglob("test_*.py")}
    found = []
    for *_, cell in cells(page):
        if cell != "the same" and not TEST.search(cell):
            found.append(cell)
        found += [f"{file}::{test}" for file, test in named(cell) if test not in functions(files[file])]
    return found


def test_each_fault_names_tests_that_exist():
    assert missing(PAGE.read_text(encoding="utf-8"), ROOT / "tests") == []


def test_a_fault_without_a_test_and_one_with_a_wrong_one_are_found(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_a(): ...\n")
    page = "| fault | test |\n|---|---|\n| x | `test_one.py::test_a`, `::test_b` |\n| y | the same |\n| z | – |\n"
    assert missing(page, tmp_path) == ["test_one.py::test_b", "–"]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_guide_names_no_tests(page: Path):
    assert TEST.findall(page.read_text(encoding="utf-8")) == []
