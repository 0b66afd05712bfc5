"""The two ways as `docs/contribute/design.md` tells them: reads its tables, and writes them as a trace has them.

The section of a way has the rows and looks of the first variant. A section below it, for each other variant that `VARIANTS`
gives a title, has what that variant has and the first one lacks, in order; `Without:` names what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.traced_ways import Trace

PAGE = Path(__file__).parents[2] / "docs" / "contribute" / "design.md"

#: way -> the title of its section
TITLES = {
    "frame": "The way of a frame", "command": "The way of a command", "request": "The way of an HTTP request",
    "start": "The start of a WebSocket",
}  # fmt: skip
#: variant -> the title of what differs, below that section; the first is the section itself, the last has both differences
VARIANTS = {
    "generator": "",
    "run loop": "From a run loop",
    "process": "In a process of its own",
    "run loop, process": "",
}
FIRST, LAST = "generator", "run loop, process"

#: what a new row says until somebody writes what the function does
UNTOLD = "…"
HEAD = "| # | function | where | what it does |\n|---|---|---|---|\n"
_ROW = re.compile(r"^\| (\d+) \| `([\w.]+:[\w.<>]+)`( ↓)? \| ([^|]+) \| (.*) \|$", re.MULTILINE)
_NAMES = re.compile(r"`([\w.]+:[\w.<>]+)`")


@dataclass
class Part:
    """A section: its rows (function, where, whether it pulls), its looks, and what of the first variant is not there."""

    rows: list[tuple[str, str, bool]] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


def section(title: str, text: str) -> str:
    """The text below a heading of level 2, until the next of that level."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def parts_of(way: str, text: str) -> dict[str, str]:
    """Variant -> the text of its section; empty if there is none."""
    main, *others = section(TITLES[way], text).split("\n### ")
    below = dict(other.split("\n", 1) for other in others)
    return {FIRST: main} | {variant: below.get(title, "") for variant, title in VARIANTS.items() if title}


def read(way: str, text: str) -> dict[str, Part]:
    """Variant -> what the page says. Raises AssertionError if the numbers of a table do not count."""
    found = {}
    for variant, part in parts_of(way, text).items():
        rows = _ROW.findall(part)
        assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1)), f"{way}, {variant}: numbers"
        table = [(function, where, bool(pulls)) for _, function, pulls, where, _ in rows]
        found[variant] = Part(table, _listed("Looks", part), _listed("Without", part))
    return found


def expected(traces: Mapping[str, Trace]) -> dict[str, Part]:
    """Variant -> what the page must say, by the traces of all variants."""
    first = traces[FIRST]
    parts = {FIRST: Part([(function, *row) for function, row in first.rows.items()], first.looks)}
    for variant, title in VARIANTS.items():
        if title:
            trace = traces[variant]
            parts[variant] = Part(
                [(function, *row) for function, row in trace.rows.items() if function not in first.rows],
                [look for look in trace.looks if look not in first.looks],
                [name for name in [*first.rows, *first.looks] if name not in trace.rows and name not in trace.looks],
            )
    return parts


def of_both(parts: Mapping[str, Part]) -> set[str]:
    """The functions of the last variant, if it has the differences of both others and no more."""
    names = {name for part in parts.values() for name in [*(function for function, _, _ in part.rows), *part.looks]}
    return names.difference(*(part.without for part in parts.values()))


def untold(text: str) -> list[str]:
    """Functions of which the page does not say what they do."""
    return [function for _, function, _, _, what in _ROW.findall(text) if what.strip() in ("", UNTOLD)]


def written(way: str, parts: Mapping[str, Part], text: str) -> dict[str, str]:
    """Variant -> its table and lists as the page should have them; what the functions do is as `text` says."""
    told = {function: what for _, function, _, _, what in _ROW.findall(text + section(TITLES[way], text))}  # its own counts
    return {variant: _written(part, told) for variant, part in parts.items()}


def replaced(way: str, parts: Mapping[str, Part], text: str) -> str:
    """The page with these tables and lists in place of its own."""
    new, olds = written(way, parts, text), parts_of(way, text)
    for variant, old in olds.items():
        table = re.compile(r"(Without: .*\n\n)?" + re.escape(HEAD) + r"(\| \d.*\n)*(\nLooks: .*\n)?")
        if not table.search(old):
            assert not new[variant], f"{way}: write a section ### {VARIANTS[variant]} with an empty table in it"
            continue
        heading = text.index(f"\n## {TITLES[way]}\n")
        begin = text.index(old, text.index(f"\n### {title}\n", heading) if (title := VARIANTS[variant]) else heading)
        text = text[:begin] + table.sub(lambda _, to=new[variant]: to, old, count=1) + text[begin + len(old) :]
    return text


def _listed(word: str, part: str) -> list[str]:
    return [name for line in re.findall(rf"^{word}: (.*)$", part, re.MULTILINE) for name in _NAMES.findall(line)]


def _written(part: Part, told: Mapping[str, str]) -> str:
    lines = [f"Without: {', '.join(f'`{name}`' for name in part.without)}.\n\n"] if part.without else []
    if part.rows:
        lines.append(HEAD)
    for number, (function, where, pulls) in enumerate(part.rows, 1):
        lines.append(f"| {number} | `{function}`{' ↓' if pulls else ''} | {where} | {told.get(function, UNTOLD)} |\n")
    if part.looks:
        lines.append(f"\nLooks: {', '.join(f'`{name}`' for name in part.looks)}.\n")
    return "".join(lines)
