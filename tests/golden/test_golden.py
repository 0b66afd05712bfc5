"""What others see stays as it is: schema, AsyncAPI, metrics, health, loggers, timelines, options, public names, wire tags.

`tests/golden/files` holds it. After a change that is meant run `python -m tests.golden.surface`, and read the diff.
(`ways.json` there is of `tests/docs/test_two_ways.py`.)
"""

from __future__ import annotations

import pytest

from tests.golden.surface import FILES, surface

HELD = sorted(str(path.relative_to(FILES)) for path in FILES.rglob("*.*") if path.name != "ways.json")


@pytest.fixture(scope="module")
def seen():
    return surface()


def test_every_file_is_of_something_that_is_seen(seen):
    assert sorted(seen) == HELD


@pytest.mark.parametrize("name", HELD)
def test_the_public_surface_is_that_of_the_golden_files(seen, name):
    assert seen[name] == (FILES / name).read_text(encoding="utf-8")
