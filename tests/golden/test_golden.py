"""What others see stays as it is: schema, AsyncAPI, metrics, health, loggers, timelines, options, public names, wire tags.

`tests/golden/files` holds it. After a change that is meant run `python -m tests.golden.surface`, and read the diff.
(`ways.json` there is of `tests/docs/test_two_ways.py`.)
"""

from __future__ import annotations

import json
import sys

import pytest

from tests.golden.surface import FILES, module_names, surface

HELD = sorted(str(path.relative_to(FILES)) for path in FILES.rglob("*.*") if path.name != "ways.json")


@pytest.fixture(scope="module")
def seen():
    return surface()


def test_every_file_is_of_something_that_is_seen(seen):
    assert sorted(seen) == HELD


@pytest.mark.parametrize("name", HELD)
def test_the_public_surface_is_that_of_the_golden_files(seen, name):
    assert seen[name] == (FILES / name).read_text(encoding="utf-8")


def test_without_ray_its_place_stays_as_it_is_and_a_line_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "reactor_trio.replicas.application", raising=False)
    assert module_names() == json.loads((FILES / "modules.json").read_text(encoding="utf-8"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Ray is not installed, so reactor_trio.replicas.application:build stays as it is")
