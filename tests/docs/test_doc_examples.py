"""The Python in the documentation runs: a page's blocks, in order, are one module, and its `test_` functions its tests.

Every fenced block marked `python` counts, on every page that this list finds; what is not meant to run is marked otherwise.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest
import trio.testing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
#: Pages that say exactly how a part behaves. What they say, their tests hold.
TOPICS = [
    *sorted(page for part in ("model", "runtime") for page in (REFERENCE / part).glob("*.md") if page.stem != "index"),
    *(REFERENCE / "client" / name for name in ("types.md", "web-client.md", "web-migration.md")),
    *(DOCS / "operate" / name for name in ("cluster.md", "loadtest.md")),
]
PAGES = [DOCS / "index.md", DOCS / "operate" / "security.md", *TOPICS]
#: Parts that teach. They promise nothing that the reference does not, so they name no tests of the runtime.
GUIDES = ("start", "learn", "cookbook", "understand")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def source_of(page: Path) -> str:
    """The page's Python at the lines where the page has it, so that a traceback points into the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for found in PYTHON.finditer(text):
        at = text.count("\n", 0, found.start(1))
        code = found[1].splitlines()
        lines[at : at + len(code)] = code
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    name = f"docs_{page.stem.replace('-', '_')}"
    path = tmp_path / f"{name}.py"
    path.write_text(source_of(page), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    for test_name, function in list(vars(module).items()):
        if test_name.startswith("test_") and not inspect.iscoroutinefunction(function):
            function()
        elif test_name.startswith("test_"):
            given = {"autojump_clock": None} if "autojump_clock" in inspect.signature(function).parameters else {}
            trio.run(lambda function=function, given=given: function(**given),
                     clock=trio.testing.MockClock(autojump_threshold=0))  # fmt: skip


@pytest.mark.parametrize("page", TOPICS, ids=lambda page: page.stem)
def test_every_topic_of_the_reference_shows_a_test(page):
    assert "async def test_" in source_of(page)


def test_what_the_runtime_promises_stands_in_the_reference_not_in_the_guides():
    pages = [page for part in GUIDES for page in (DOCS / part).rglob("*.md")]
    assert [page for page in pages if "`tests/" in page.read_text(encoding="utf-8")] == []
