"""Two source trees beside each other: the main figures of a benchmark, measured in turns.

A pair is one turn of each tree, in a process of its own that imports `reactor_trio` from this tree, as the servers and
clients do that it starts. Which tree begins alternates from pair to pair. Each pair gives a ratio, new to old, of each
figure that the benchmark's `turn` names with `Report.figure`. A machine that becomes slower meanwhile changes both sides
of a pair, and one disturbed turn changes one ratio; so the median of the ratios tells more than the ratio of two means.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.peers import ROOT, SOURCE
from benchmarks.report import Report

#: what the median of the ratios may be
MOST = 1.05
PAIRS = 7


def compare(report: Report, module: str, old: Path, new: Path, *, pairs: int, quick: bool) -> None:
    """Measure, and add a table and the bars. Raises RuntimeError if a turn fails, with the end of what it said."""
    trees, taken = {"old": old, "new": new}, dict[str, dict[str, list[float]]]()
    for number, which in enumerate(order(pairs), start=1):
        report.note(f"turn {number} of {2 * pairs}: {which}")
        for what, value in figures(module, trees[which], quick=quick).items():
            taken.setdefault(what, {"old": [], "new": []})[which].append(value)
    ratios = {
        what: [ratio(before, after) for before, after in zip(values["old"], values["new"], strict=True)]
        for what, values in taken.items()
    }
    report.table(
        f"{pairs} pairs: medians of each tree, and ratios new to old",
        ["", "old", "new", "ratio p50", "least", "most"],
        [
            [what, *(median(values[which]) for which in trees), *(f"{f(ratios[what]):.3f}" for f in (median, min, max))]
            for what, values in taken.items()
        ],
    )
    report.data["ratios"] = ratios
    for what, each in ratios.items():
        report.bar(f"{what}: new to old, the median", median(each), MOST, "times")


def ratio(before: float, after: float) -> float:
    """New to old. A difference of two measurements can come out below zero, if others used the machine; then infinity."""
    return after / before if min(before, after) > 0 else math.inf


def order(pairs: int) -> Iterator[str]:
    """AB, BA, AB and so on: what comes second on a machine that gets warm is not always the same."""
    for number in range(pairs):
        yield from ("new", "old") if number % 2 else ("old", "new")


def figures(module: str, tree: Path, *, quick: bool) -> dict[str, float]:
    """The figures of one turn of a benchmark over this tree."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), str(ROOT)])}
    with tempfile.TemporaryDirectory() as folder:
        given = json.dumps([module, str(tree), str(Path(folder) / "figures"), quick])
        done = subprocess.run(
            [sys.executable, "-c", "from benchmarks.against import turn; turn()", given],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{module} over {tree} ended with {done.returncode}: {done.stdout[-2000:]}")
        taken: dict[str, float] = json.loads((Path(folder) / "figures").read_text())
        return taken


def turn() -> None:
    """The child process: write the figures of one turn to the file that it is given."""
    module, tree, file, quick = json.loads(sys.argv[1])
    assert tree == SOURCE, f"reactor_trio is of {SOURCE}"
    report = Report(module)
    importlib.import_module(module).turn(report, quick=quick)
    Path(file).write_text(json.dumps(report.figures))
