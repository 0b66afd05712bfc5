"""Tables of benchmarks in a page: `python -m benchmarks.tables FILE PAGE` replaces those that FILE, made by `--json`, holds.

The comment above a table says which it is: `<!-- compare: 480p: -->` names a benchmark and the beginning of a table's
title, `<!-- compare: bars -->` the bars of a benchmark that none of its tables has. Words between tables stay as they are,
so read them again afterwards.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: a comment that names a table, and the table below it
_PLACE = re.compile(r"^<!-- (?P<benchmark>\w+): (?P<title>.+) -->\n(?P<table>(?:\|.*\n)*)", re.MULTILINE)


def replaced(page: str, found: dict[str, Any]) -> tuple[str, list[str]]:
    """The page with the tables of `found`, and the places for which `found` has none.

    Raises ValueError if a place fits several tables.
    """
    benchmarks = {each["name"]: each for each in found["benchmarks"]}
    missing = []

    def table(place: re.Match[str]) -> str:
        name, title = place["benchmark"], place["title"]
        made = _table(benchmarks[name], title) if name in benchmarks else None
        if made is None:
            missing.append(f"{name}: {title}")
            return place[0]
        return f"<!-- {name}: {title} -->\n{made}"

    return _PLACE.sub(table, page), missing


def _table(benchmark: dict[str, Any], title: str) -> str | None:
    if title == "bars":
        return _markdown(("", "value", "goal", "met"), _bars(benchmark))
    fitting = [each for each in benchmark["tables"] if each["title"].startswith(title)]
    if len(fitting) > 1:
        raise ValueError(f"{benchmark['name']}: {title} fits {', '.join(repr(each['title']) for each in fitting)}")
    return _markdown(fitting[0]["columns"], fitting[0]["rows"]) if fitting else None


def _bars(benchmark: dict[str, Any]) -> list[list[object]]:
    told = {row[0] for each in benchmark["tables"] for row in each["rows"]}
    return [
        [bar["what"], f"{_text(bar['value'])} {bar['unit']}", f"{'>=' if bar['least'] else '<='} {bar['limit']:g}",
         "yes" if bar["met"] else "NO"]
        for bar in benchmark["bars"] if bar["what"] not in told
    ]  # fmt: skip


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    numbers = [any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(columns))]
    lines = [list(columns), ["---:" if number else "---" for number in numbers]]
    lines += [[_text(cell) for cell in row] for row in rows]
    return "".join(f"| {' | '.join(_bold(cell) for cell in line)} |\n" for line in lines)


def _bold(cell: str) -> str:
    return "**NO**" if cell == "NO" else cell


def _text(cell: object) -> str:
    """Three digits that count; whole numbers as they are."""
    if not isinstance(cell, float):
        return str(cell)
    if math.isnan(cell):
        return "–"
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:#.3g}"


def main() -> None:
    """Rewrite the page, and name the tables that it keeps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("page", type=Path)
    options = parser.parse_args()
    text, missing = replaced(options.page.read_text(), json.loads(options.file.read_text()))
    options.page.write_text(text)
    for place in missing:
        print(f"kept, since {options.file} has none: {place}")


if __name__ == "__main__":
    main()
