"""The pictures that `python -m benchmarks.draw` makes of a benchmark's JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.draw import draw
from benchmarks.svg import Axis, Line, chart

ROOT = Path(__file__).parents[2]

SVG = "{http://www.w3.org/2000/svg}"


def _point(viewers: int, size: tuple[int, int] = (640, 480), batch: int = 1) -> dict[str, Any]:
    parts = {name: {"ran": 0.1 * viewers, "waited": 0.0} for name in ("I/O loop", "model", "encoder", "clients")}
    return {
        "viewers": viewers, "width": size[0], "height": size[1], "batch": batch, "fps": 30.0, "cpu": 0.5,
        "delivered": 30 * viewers, "age_p95": 0.01, "parts": parts,
    }  # fmt: skip


DOCUMENT = {
    "benchmarks": [
        {"name": "pacing", "data": {}},
        {
            "name": "compare",
            "data": {
                "distributions": {
                    "480p": {
                        "ours": {"gap": [33.1, 33.4], "age": [0.0, 5.5, 7.5], "command": [60.5]},
                        'theirs & <"others">': {"gap": [30.5, 140.0], "age": [41.0], "command": [90.0, 95.5]},
                    },
                    "480p, batch 12": {"ours": {"gap": [33.3] * 5, "age": [], "command": []}},
                }
            },
        },
        {
            "name": "growth",
            "data": {
                "series": [
                    {"by": "viewers", "codec": "h264", "points": [_point(1), _point(2), _point(4)]},
                    {"by": "viewers", "codec": "raw", "points": [_point(1)]},
                    {"by": "size", "codec": "h264", "points": [_point(1, (320, 240)), _point(1, (1280, 720))]},
                    {"by": "batch", "codec": "h264", "points": [_point(1), _point(1, batch=12)]},
                ]
            },
        },
    ]
}


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_each_benchmark_is_drawn_with_the_names_of_its_series(tmp_path: Path) -> None:
    texts = {path.name: _texts(path.read_text()) for path in draw(DOCUMENT, tmp_path / "new")}
    names = {
        "compare-command.svg": {"ours (1)", 'theirs & <"others"> (2)'},
        "compare-age.svg": {"ours (3)", 'theirs & <"others"> (1)'},
        "compare-gap.svg": {"ours (2)", 'theirs & <"others"> (2)'},
        "compare-gap-batch-12.svg": {"ours (5)"},
        "growth-viewers-cost.svg": {"h264", "raw", "1", "2", "4"},
        "growth-viewers-fps.svg": {"h264", "raw"},
        "growth-viewers-age.svg": {"h264", "raw"},
        "growth-viewers-busy-h264.svg": {"I/O loop", "model", "encoder", "clients"},
        "growth-viewers-busy-raw.svg": {"I/O loop", "model", "encoder", "clients"},
        "growth-size-cost.svg": {"h264", "320x240", "1280x720"},
        "growth-batch-cost.svg": {"h264", "1", "12"},
    }
    assert texts.keys() == names.keys()
    for name, expected in names.items():
        assert expected <= set(texts[name]), name


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(json.dumps(DOCUMENT))
    command = [sys.executable, "-m", "benchmarks.draw", str(tmp_path / "found.json"), str(tmp_path / "pictures")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(str(path) for path in (tmp_path / "pictures").iterdir())


def _line(svg: str) -> list[tuple[float, float]]:
    polyline = next(ElementTree.fromstring(svg).iter(f"{SVG}polyline"))
    return [(float(x), float(y)) for x, y in (place.split(",") for place in polyline.attrib["points"].split())]


def test_a_point_is_where_the_axes_say() -> None:
    (left, bottom), (middle, centre), (right, top) = _line(
        chart("", [Line("a", [(1, 0), (10, 5), (100, 10)])], Axis("x", log=True), Axis("y"))
    )
    assert left < middle < right
    assert middle - left == pytest.approx(right - middle, abs=0.11)
    assert centre - top == pytest.approx(bottom - centre, abs=0.11)
    assert top < bottom


def test_ticks_are_round_and_on_the_axis() -> None:
    texts = _texts(chart("t", [Line("a", [(0, 3), (70, 300)])], Axis("x"), Axis("y", log=True)))
    assert texts == ["t", *(str(n) for n in range(0, 71, 20)), "5", "10", "20", "50", "100", "200", "x", "y", "a"]


def test_ends_that_are_given_cut_the_line_off() -> None:
    svg = chart("", [Line("a", [(0, 1), (500, 2)], dots=True)], Axis("x", high=100), Axis("y", log=True))
    assert 'clip-path="url(#plot)"' in svg
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}circle"))) == 1


def test_a_table_that_cannot_be_drawn_is_an_error_with_its_reason() -> None:
    with pytest.raises(ValueError, match="nothing to draw along 'x'"):
        chart("", [], Axis("x"), Axis("y"))
    with pytest.raises(ValueError, match="'x' has no logarithm at 0"):
        chart("", [Line("a", [(0, 1)])], Axis("x", log=True), Axis("y"))
