"""No module of the package is longer than 330 lines, except those that were longer when this test came.

`module_lines.json` has how long each of them may be. A number in it may be lowered, and need not be when its module shrinks.
It is never raised, and a new module gets no line there; a module of 330 lines loses its line.

Ruff has no rule for this, and pylint's (`too-many-lines`) has one number for all files.
"""

from __future__ import annotations

import json
from pathlib import Path

import reactor_trio

MOST = 330
SOURCE = Path(reactor_trio.__file__).parent
LONGER: dict[str, int] = json.loads((Path(__file__).parent / "module_lines.json").read_text(encoding="utf-8"))


def module_lines() -> dict[str, int]:
    files = [file for file in SOURCE.rglob("*.py") if "__pycache__" not in file.parts]
    return {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8").count("\n") for file in sorted(files)}


def test_no_module_is_too_long():
    grown = [
        f"{name} has {lines} lines, at most {most}: move a part of it that has a name of its own into another module"
        for name, lines in module_lines().items()
        if lines > (most := LONGER.get(name, MOST))
    ]
    assert not grown, "\n".join(grown)


def test_the_list_has_only_modules_that_are_too_long():
    lines = module_lines()
    stale = [f"take {name} out of tests/module_lines.json" for name in LONGER if lines.get(name, 0) <= MOST]
    assert not stale, "\n".join(stale)
