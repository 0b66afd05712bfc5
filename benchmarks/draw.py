"""Pictures of what benchmarks found: `python -m benchmarks.draw FILE DIR` draws whatever FILE, made by `--json`, holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.svg import Axis, Line, chart

#: name and document of each picture of one benchmark, given its entry in the JSON
Drawer = Callable[[dict[str, Any]], Iterator[tuple[str, str]]]

#: where a distribution is looked at: more often in its tail
_PERCENTS = [*(n / 2 for n in range(198)), *(99 + n / 20 for n in range(21))]
#: ms; what is less has no place on a logarithmic axis
_LEAST = 0.1


def comparison(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Cumulative distributions of those workloads that a quick run has, too, and of a large batch."""
    spreads = found["data"].get("distributions", {})
    for workload, figure, name, title, axis in (
        ("480p", "command", "command", "from a command to its picture", Axis("ms", log=True)),
        ("480p", "age", "age", "from the drawing of a frame to the client's program", Axis("ms", log=True)),
        ("480p", "gap", "gap", "time between two frames", Axis("ms", low=0, high=100)),
        ("480p, batch 12", "gap", "gap-batch-12", "time between two frames", Axis("ms", low=0, high=100)),
    ):
        samples = {system: figures[figure] for system, figures in spreads.get(workload, {}).items() if figures[figure]}
        if samples:
            yield f"compare-{name}", _cumulative(f"{workload}: {title}", samples, axis)


def _cumulative(title: str, samples: dict[str, list[float]], axis: Axis) -> str:
    lines = []
    for name, values in samples.items():
        kept = np.maximum(values, _LEAST) if axis.log else np.asarray(values)
        places = np.percentile(kept, _PERCENTS, method="inverted_cdf")  # samples themselves, nothing between them
        lines.append(Line(f"{name} ({len(values)})", list(zip(places.tolist(), _PERCENTS, strict=True))))
    return chart(title, lines, axis, Axis("% not above", low=0, high=100))


# ---- growth ----------------------------------------------------------------------------------------------------------

Point = dict[str, Any]

#: of several viewers
_FIGURES: tuple[tuple[str, str, Callable[[Point], float], Axis], ...] = (
    ("fps", "frames a second of each viewer", lambda p: p["fps"], Axis("fps", low=0)),
    ("age", "from yield to receipt, 95th percentile", lambda p: 1000 * p["age_p95"], Axis("ms", log=True)),
)


def growth(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Cost by viewers, size and batch of each codec; and for viewers, what they get and who is busy."""
    for by in ("viewers", "size", "batch"):
        series = [one for one in found["data"].get("series", []) if one["by"] == by and one["points"]]
        if not series:
            continue
        x = _varied(by, [point for one in series for point in one["points"]])
        y = Axis("ms", log=True) if by == "viewers" else Axis("ms", low=0)
        curves = [_curve(one["codec"], one, _cost) for one in series]
        yield f"growth-{by}-cost", chart(f"server CPU for a frame delivered, by {by}", curves, x, y)
        if by != "viewers":
            continue
        for name, title, figure, y in _FIGURES:
            curves = [_curve(one["codec"], one, figure) for one in series]
            yield f"growth-{by}-{name}", chart(f"{title}, by {by}", curves, x, y)
        for one in series:
            title = f"how busy each part is, by {by}: {one['codec']}"
            curves = [_curve(part, one, partial(_busy, part)) for part in one["points"][0]["parts"]]
            yield f"growth-{by}-busy-{one['codec']}", chart(title, curves, x, Axis("% of a core", low=0))


def _cost(point: Point) -> float:
    return 1000 * float(point["cpu"]) / float(point["delivered"])


def _busy(part: str, point: Point) -> float:
    return 100 * float(point["parts"][part]["ran"])


def _varied(by: str, points: list[Point]) -> Axis:
    labels = {_place(by, point): _label(by, point) for point in points}
    return Axis(by, log=by != "size", ticks=sorted(labels.items()))


def _curve(name: str, series: dict[str, Any], figure: Callable[[Point], float]) -> Line:
    return Line(name, [(_place(series["by"], point), figure(point)) for point in series["points"]], dots=True)


def _place(by: str, point: Point) -> float:
    return float(point["width"] * point["height"] if by == "size" else point[by])


def _label(by: str, point: Point) -> str:
    return f"{point['width']}x{point['height']}" if by == "size" else str(point[by])


# ---- all -------------------------------------------------------------------------------------------------------------

#: by the name of the benchmark
DRAWERS: dict[str, Drawer] = {"compare": comparison, "growth": growth}


def _nothing(_: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return iter(())


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """Write the pictures of all benchmarks in `document` to `folder`, which is made if need be; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in document["benchmarks"]:
        for name, picture in DRAWERS.get(found["name"], _nothing)(found):
            path = folder / f"{name}.svg"
            path.write_text(picture)
            written.append(path)
    return written


def main() -> None:
    """As said above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draw", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path, metavar="dir")
    given = parser.parse_args()
    for path in draw(json.loads(given.file.read_text()), given.folder):
        print(path)


if __name__ == "__main__":
    main()
