"""Clients that come, use one server and vanish: how many a second, and what they leave behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.peers import cycle
from benchmarks.report import Report

#: MiB that the server may grow by after the first 200
MAY_GROW = 5.0


def run(report: Report, *, quick: bool) -> None:
    """2000 cycles, or 300."""
    with tempfile.TemporaryDirectory() as folder:
        cycled = cycle(Path(folder), 300 if quick else 2000)
    moments = [(name.replace("_", " "), count) for name, count in sorted(cycled.by_moment.items())]
    report.table("clients that vanished", ["moment", "clients"], moments)
    report.table(
        "what the server's process holds",
        ["", "fresh", "after 200", "at the end"],
        [
            [name, *(getattr(held, name) for held in (cycled.fresh, cycled.warm, cycled.end))]
            for name in ("generators_entered", "generators_left", "tasks", "threads")
        ]
        + [
            ["descriptors", *(len(held.descriptors) for held in (cycled.fresh, cycled.warm, cycled.end))],
            ["resident MiB", *(held.memory / 2**20 for held in (cycled.fresh, cycled.warm, cycled.end))],
        ],
    )
    report.note(f"{sum(cycled.by_moment.values()) / cycled.seconds:.0f} clients a second")
    report.bar("resident memory grown since the first 200", cycled.grown_by / 2**20, MAY_GROW, "MiB")
