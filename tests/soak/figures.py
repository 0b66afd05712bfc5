"""What a soak is judged by: samples of the server's process, how they grow, and a table of figures with their bars."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.support.fault_peers import ReactorProcess

#: share of a run that is left out of the slope, in which caches and the allocator's pools fill
FILLING = 0.2
#: pairs of points that Theil and Sen's median is taken over, at most
PAIRS_OF = 500
PER = 10_000


@dataclass(frozen=True)
class Sample:
    """The server at one moment: seconds since the run began, sessions since then, and what its process holds.

    `resident` and `anonymous` are MiB; the latter is what no file backs: heaps, stacks.
    """

    at: float
    sessions: int
    resident: float
    anonymous: float
    threads: int
    descriptors: int
    log: int

    @classmethod
    def take(cls, server: ReactorProcess, at: float, sessions: int) -> Sample:
        """One sample, from `/proc`."""
        pid = server.process.pid
        status = Path(f"/proc/{pid}/status").read_text()
        resident, anonymous, threads = (
            int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[1])  # type: ignore[index]
            for name in ("VmRSS", "RssAnon", "Threads")
        )
        return cls(
            at, sessions, resident / 1024, anonymous / 1024, threads, len(os.listdir(f"/proc/{pid}/fd")),
            server.log_path.stat().st_size,
        )  # fmt: skip


@dataclass(frozen=True)
class Slope:
    """MiB for each 10 000 sessions: by least squares, and the median slope of all pairs (Theil and Sen)."""

    least_squares: float
    theil_sen: float

    @classmethod
    def of(cls, points: list[tuple[float, float]]) -> Slope | None:
        """The slopes of (sessions, MiB) over the last four fifths of the sessions; None if there is nothing to fit."""
        if not points:
            return None
        begin = points[0][0] + FILLING * (points[-1][0] - points[0][0])
        late = np.array([point for point in points if point[0] >= begin], float)
        if len(late) < 3 or late[0, 0] == late[-1, 0]:
            return None
        least_squares = float(np.polyfit(late[:, 0], late[:, 1], 1)[0])
        few = late[np.linspace(0, len(late) - 1, min(PAIRS_OF, len(late))).astype(int)]
        first, second = np.triu_indices(len(few), 1)
        apart = few[second, 0] - few[first, 0]
        slopes = (few[second, 1] - few[first, 1])[apart > 0] / apart[apart > 0]
        return cls(least_squares * PER, median(slopes.tolist()) * PER)


@dataclass(frozen=True)
class Figure:
    """One line of the table: a figure, its bar in words, and whether it is met; None where there is no bar."""

    name: str
    value: str
    bar: str = ""
    met: bool | None = None

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return {"figure": self.name, "value": self.value, "bar": self.bar, "met": self.met}


def table(figures: list[Figure]) -> str:
    """The figures as Markdown."""
    word = {None: "", True: "met", False: "**missed**"}
    rows = [(figure.name, figure.value, figure.bar, word[figure.met]) for figure in figures]
    heads = ("figure", "value", "bar", "")
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(4)]
    lines = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)
