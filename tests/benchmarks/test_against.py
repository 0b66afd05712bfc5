"""Two source trees in turns: each turn runs over its tree, a ratio is of a pair, and what is compared is named."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from benchmarks.report import Report

import reactor_trio
from benchmarks import against

ROOT = Path(__file__).parents[2]
#: a benchmark whose figures are in the tree of the package that was imported
MADE_UP = """
import json
from pathlib import Path
import reactor_trio

def turn(report, *, quick):
    file = Path(reactor_trio.__file__).parents[1] / "figures"
    first, *others = json.loads(file.read_text())
    file.write_text(json.dumps(others))
    report.figure("seconds", first)
"""


def tree(folder: Path, figures: list[float]) -> Path:
    folder.mkdir()
    (folder / "reactor_trio").symlink_to(Path(reactor_trio.__file__).parent)
    (folder / "made_up.py").write_text(MADE_UP)
    (folder / "figures").write_text(str(figures))
    return folder


@pytest.fixture
def report() -> Report:
    return Report("made up")


def test_ratios_are_of_pairs_and_each_turn_imports_its_tree(report, tmp_path):
    old, new = tree(tmp_path / "old", [1.0, 10.0]), tree(tmp_path / "new", [2.0, 11.0])
    against.compare(report, "made_up", old, new, pairs=2, quick=True)
    assert report.data["ratios"] == {"seconds": [2.0, 1.1]}
    (table,) = report.tables
    assert table["rows"] == [["seconds", 5.5, 6.5, "1.550", "1.100", "2.000"]]
    assert [(bar["value"], bar["met"]) for bar in report.bars] == [(1.55, False)]


@pytest.mark.parametrize(("old", "new"), [(-1.0, 2.0), (1.0, -2.0), (-1.0, -2.0), (0.0, 1.0)])
def test_a_disturbed_pair_counts_against_the_new_tree(old, new):
    assert against.ratio(old, new) > against.MOST


def test_turns_alternate_and_so_does_which_begins():
    assert [*against.order(4)] == ["old", "new", "new", "old"] * 2


def test_a_turn_that_fails_says_where(report, tmp_path):
    old = tree(tmp_path / "old", [])
    with pytest.raises(RuntimeError, match=rf"made_up over {old} ended with 1: (?s:.*)not enough values to unpack"):
        against.compare(report, "made_up", old, old, pairs=1, quick=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pacing", "--against", "src"], "--against compares gap, fanout, isolation; name some of them"),
        (["gap", "--against", "docs"], "--against: docs has no folder reactor_trio"),
    ],
)
def test_a_benchmark_that_cannot_be_compared_is_refused(arguments, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("benchmarks", run_name="__main__")
    assert capsys.readouterr().err.splitlines()[-1] == f"python -m benchmarks: error: {says}"
