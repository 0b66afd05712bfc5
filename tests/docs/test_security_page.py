"""The threat model names a test for each promise; the tables of `docs/operate/security.md` are those of the tests."""

from __future__ import annotations

import ast
from pathlib import Path

from test_limits import NAMED

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
THREATS = (ROOT / "docs" / "reference" / "threat-model.md").read_text(encoding="utf-8")


def rows_after(heading: str, text: str = TEXT) -> list[list[str]]:
    """The cells of a table's rows."""
    table = text.partition(heading)[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_each_promise_names_its_tests():
    """That they exist is checked for every page (`test_limits.py`)."""
    promises = rows_after("| what we promise |", THREATS)
    defences = rows_after("| attack or fault, and defence |", THREATS)
    assert promises
    assert defences
    for promise, tests in promises + defences:
        assert NAMED.findall(tests), promise


def test_the_tables_of_who_may_do_what_are_those_of_the_tests():
    tree = ast.parse((ROOT / "tests" / "edge" / "test_access.py").read_text(encoding="utf-8"))
    held = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name) and target.id in ("WITH_AUTH", "WITHOUT")
    }  # fmt: skip
    shown = [
        {name: tuple(map(int, cells)) for name, *cells in rows_after(heading)}
        for heading in ("and nothing else.\n\n", "Without `auth`:\n\n")
    ]
    assert shown == [held["WITH_AUTH"], held["WITHOUT"]]
