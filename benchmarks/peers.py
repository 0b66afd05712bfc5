"""Processes and sockets that the benchmarks share with the tests of faults."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("faults", "soak")]

from cycling import cycle  # noqa: E402
from fault_peers import PONG, SOURCE, RawClient, frame, opening, reactor_run  # noqa: E402

__all__ = ["PONG", "RawClient", "cpu_seconds", "cycle", "environment", "frame", "opening", "reactor_run"]


def environment() -> dict[str, str]:
    """For a child process that runs a module of this package."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)])}


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, all its threads, in seconds; exact to the nanosecond while no thread ends."""
    folder = f"/proc/{pid}/task"
    return sum(int(Path(f"{folder}/{thread}/schedstat").read_text().split()[0]) for thread in os.listdir(folder)) / 1e9
