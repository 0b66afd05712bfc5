"""Protection from encoder libraries that change how this program's threads are scheduled.

If it may (as root), SVT-AV1 turns the thread that opens an encoder into a real-time thread (SCHED_FIFO, priority 99), as it
does with its own threads. An ordinary thread never preempts such a thread. Whatever runs in it next, in a thread pool or as
a child process, then blocks event loops and disks for as long as it computes: for seconds, if there are as many such threads
as processors.

The library's own threads keep their scheduling: they work in bursts, and as ordinary threads they were seen to deadlock
(SVT-AV1 4.1, several processes on few processors).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def ordinary_scheduling() -> Generator[None, None, None]:
    """After the block, schedule the calling thread as before it."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, priority)
