"""`end_if_stopped`: kills a replica's process that is stopped (SIGSTOP, a debugger, a frozen container).

A stopped process cannot run a watchdog of its own, so a Ray task on the same node checks it. A silent process that is not
stopped is left to its own watchdog.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from reactor_trio.replicas.node_address import parse_name

log = logging.getLogger("reactor_trio.replicas")


async def end_if_stopped(name: str) -> AsyncIterator[str]:
    """Kill the process `name` (`own_name`), on its node, if it is stopped, and yield the result. Never raises."""
    process, node = parse_name(name)
    task = ray.remote(num_cpus=0)(_end_if_stopped)
    strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    try:
        state = await task.options(scheduling_strategy=strategy).remote(process)
    except Exception as error:  # the node is gone, and so is the replica
        state = f"its node cannot be asked: {error}"
    log.warning("replica %s is silent: %s", name, state)
    yield state


def _end_if_stopped(process: int) -> str:
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return "it is gone"
    state = status.rpartition(")")[2].split()[0]
    if state not in ("T", "t"):
        return "it is not stopped; its own watchdog decides"
    os.kill(process, signal.SIGKILL)
    return "it was stopped, and has been killed"
