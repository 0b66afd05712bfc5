"""Samples in, tables out."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import reactor_trio


class NeedsCard(Exception):
    """A part of a benchmark that says nothing without a card."""


class Report:
    """One benchmark's tables and bars, printed as they come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables: list[dict[str, Any]] = []
        self.bars: list[dict[str, Any]] = []
        #: what is for drawing and not for reading; only in JSON
        self.data: dict[str, Any] = {}
        #: what `benchmarks.against` compares between two source trees
        self.figures: dict[str, float] = {}
        print(f"\n== {name}")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print and keep a table; numbers get two decimals."""
        kept = [list(row) for row in rows]
        self.tables.append({"title": title, "columns": list(columns), "rows": kept})
        cells = [list(columns), *([_text(cell) for cell in row] for row in kept)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        print(f"\n{title}")
        for row in cells:
            first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(["", row[0].ljust(len(first)), *others]))

    def bar(self, what: str, value: float, limit: float, unit: str, *, least: bool = False) -> None:
        """A figure that must not be above its limit, or with `least` not below it."""
        met = value >= limit if least else value <= limit
        self.bars.append({"what": what, "value": value, "limit": limit, "unit": unit, "least": least, "met": met})
        print(f"  {'met' if met else 'MISSED'}: {what}: {value:.2f} {unit}, at {'least' if least else 'most'} {limit:g}")

    def figure(self, what: str, value: float) -> None:
        """A main figure, of which less is better; `what` names its unit."""
        self.figures[what] = value

    def note(self, text: str) -> None:
        """A sentence under the tables."""
        print(f"  {text}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "tables": self.tables, "bars": self.bars, "data": self.data}


SPREAD = ("n", "p50", "p95", "p99", "max")


def spread(samples: Sequence[float], scale: float = 1000.0) -> list[float]:
    """The values of the columns `SPREAD`, by default in milliseconds of samples in seconds."""
    if not samples:
        return [0, *[float("nan")] * 4]
    values = np.asarray(samples) * scale
    return [len(samples), *(float(q) for q in np.percentile(values, [50, 95, 99])), float(values.max())]


def machine() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in ("trio", "trio-websocket", "msgspec", "numpy")),
        "reactor-trio": getattr(reactor_trio, "__version__", "from source"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _text(cell: object) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
