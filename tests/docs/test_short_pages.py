"""A newcomer reads the README and the pages of docs/learn from the top, and soon has something to run."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def first_block(page: Path) -> int:
    """The line of the page's first code block, from 1."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith("```"))


def test_the_readme_shows_code_before_line_60():
    assert first_block(ROOT / "README.md") < 60


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "learn").glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_page_to_learn_from_is_short_and_begins_with_code(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120
    assert first_block(page) < 15


def test_the_contents_name_each_page_to_learn_from_in_order():
    folder = ROOT / "docs" / "learn"
    contents = (folder / "index.md").read_text(encoding="utf-8")
    places = [contents.index(f"]({page.name})") for page in sorted(folder.glob("[0-9]*.md"))]
    assert len(places) == 9
    assert places == sorted(places)
