"""How many processors this process may use at once: the fewest of what its affinity and its control groups allow."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["usable_processors"]

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def usable_processors(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Return at least 1.

    `os.cpu_count()` counts the processors of the machine, also those that `taskset`, a container's `--cpus` or a pod's CPU
    limit keep from this process.

    Args:
        cgroups: where control groups are mounted (version 2, or the `cpu` controller of version 1 below it).
        own: names the control group of this process, as /proc/self/cgroup does.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS
    return max(1, math.ceil(min(affinity, *_quotas(cgroups, own), math.inf)))


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """Yield the processors' worth of time that each control group around this process may use."""
    path = ""
    with suppress(OSError):
        path = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "")
    group = cgroups / path.strip("/")
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            yield float(quota) / float(period)  # ValueError for "max": no limit
        if folder == cgroups:
            break
    with suppress(OSError, ValueError):
        quota, period = ((cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        if int(quota) > 0:  # -1: no limit
            yield int(quota) / int(period)
