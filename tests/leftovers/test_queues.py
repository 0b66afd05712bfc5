"""Each container that grows has its row in `docs/contribute/limits-and-queues.md`, and each row its container."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.leftovers.queues import containers, grown, queues

PAGE = Path(__file__).parents[2] / "docs" / "contribute" / "limits-and-queues.md"
NAME = re.compile(r"`([\w.*]+:[\w.*]+|[\w.]+\.\*)`")


def rows(title: str, column: int) -> list[tuple[list[str], list[str]]]:
    """The names in a column of the first table below a title, and the row's other cells."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    table = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [(NAME.findall(each[column]), each[:column] + each[column + 1:]) for each in cells]


def test_every_queue_has_a_row_and_every_row_its_queue():
    found = queues()
    described = [name for names, _ in rows("Queues", 1) for name in names]
    exempt = [name for names, _ in rows("What grows and is no queue", 1) for name in names]
    assert len(described) == len(set(described))
    assert set(described) <= found, "these are no longer there"
    without = {name for name in found - set(described) if not any(fnmatchcase(name, pattern) for pattern in exempt)}
    assert not without, "say in docs/contribute/limits-and-queues.md what bounds these"
    both = {name for name in described if any(fnmatchcase(name, pattern) for pattern in exempt)}
    assert not both, "these are in both tables"
    unused = {pattern for pattern in exempt if not any(fnmatchcase(name, pattern) for name in found)}
    assert not unused, "these name nothing"


def test_every_row_says_the_bound_and_what_happens_at_it():
    for names, rest in rows("Queues", 1):
        assert names
        assert len(rest) == 3
        assert all(rest), names
    for names, rest in rows("What grows and is no queue", 1):
        assert names
        assert all(rest), names


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("self.a = []; self.a.append(1)", True),
        ("self.a: dict[str, int] = {}; self.a['x'] = 1", True),
        ("self.a = self.b = set(); self.a.add(1)", True),
        ("self.a, self.n = deque(), 0", True),
        ("self.a = bytearray(); self.a += b''", True),
        ("self.a: list[int] = []; n = self.a[0] = 1", True),
        ("self.a: dict[str, list[int]] = {}; self.a['x'].append(1)", True),
        ("self.a = []; heapq.heappush(self.a, 1)", True),
        ("self.a, _ = trio.open_memory_channel[int](3)", True),
        ("self.a = queue.SimpleQueue()", True),
        ("self.a = [1]", False),
        ("self.a = 0; self.a += 1", False),
    ],
)
def test_how_a_queue_is_seen(line, seen):
    tree = ast.parse(f"class C:\n    def f(self):\n        {line}\n")
    names = containers(tree)["C"]
    assert ("!a" in names or ("a" in names and "a" in {target.attr for _, target in grown(tree)})) == seen
