"""`docs/reference/behaviour.md` names a test for each promise, and each of these tests exists once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "behaviour.md"
TESTS = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
HEADER = "| promise | held by |"


def mistakes(page: str, tests: Path) -> list[str]:
    """The page's mistakes, a line each: a row without a promise or a test, and a test that does not exist exactly once."""
    files: dict[str, list[Path]] = {}
    for path in tests.rglob("test_*.py"):
        files.setdefault(path.name, []).append(path)
    found = [f"{name} is the name of {len(paths)} files" for name, paths in files.items() if len(paths) > 1]
    defined: dict[str, Counter[str]] = {}
    for row in rows(page):
        promise, *cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        held_by = TESTS.findall(cells[0]) if len(cells) == 1 else []
        if not promise or not held_by or TESTS.sub("", cells[0]).strip(", "):
            found.append(f"no promise with the tests that hold it: {row}")
        for file, test in held_by:
            if file not in defined:
                defined[file] = Counter(names(files.get(file, [])))
            if defined[file][test] != 1:
                found.append(f"{file}::{test} exists {defined[file][test]} times")
    return found


def rows(page: str) -> list[str]:
    """The rows of all tables, without their headers."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [line for line in lines if line != HEADER and line.strip("|-")]


def names(paths: list[Path]) -> list[str]:
    """Every function that the files define, also in a class."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return [
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_every_promise_names_tests_that_exist_once():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(HEADER) == page.count("\n## ")
    assert mistakes(page, ROOT / "tests") == []


def test_a_page_that_names_no_test_or_a_wrong_one_is_caught(tmp_path):
    (tmp_path / "test_one.py").write_text("class A:\n    async def test_in_a_class(self): ...\n\ndef test_twice(): ...\n")
    (tmp_path / "test_two.py").write_text("def test_twice(): ...\n\ndef test_twice(): ...\n")
    good = "| A promise. | `test_one.py::test_in_a_class`, `test_one.py::test_twice` |"
    assert mistakes(f"{HEADER}\n|---|---|\n{good}\n", tmp_path) == []
    for row, said in [
        ("| A promise. | |", "no promise"),
        ("| A promise. |", "no promise"),
        ("| A promise. | read the code |", "no promise"),
        ("| | `test_one.py::test_twice` |", "no promise"),
        ("| A promise. | `test_one.py::test_twice` and more |", "no promise"),
        ("| A promise. | `test_one.py::test_gone` |", "exists 0 times"),
        ("| A promise. | `test_three.py::test_twice` |", "exists 0 times"),
        ("| A promise. | `test_two.py::test_twice` |", "exists 2 times"),
    ]:
        (mistake,) = mistakes(f"{HEADER}\n|---|---|\n{good}\n{row}\n", tmp_path)
        assert said in mistake, (row, mistake)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "test_one.py").touch()
    assert "test_one.py is the name of 2 files" in mistakes("", tmp_path)
