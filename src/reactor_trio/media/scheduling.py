"""An encoder library does not decide how the threads of this program are scheduled.

SVT-AV1, where it may (as root), makes the thread that opens an encoder a real-time one (SCHED_FIFO, 99), as it does with
its own. Such a thread is never preempted by an ordinary one, so what runs in it next, in a pool or as a child process, keeps
loops and disks waiting for as long as it computes: seconds, where there are as many as processors.

The library's own threads stay as it makes them: they work in bursts, and made ordinary they were seen to wait for each other
for ever (SVT-AV1 4.1, several processes on few processors).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def ordinary_scheduling() -> Generator[None, None, None]:
    """After the block the calling thread is scheduled as it was before."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, priority)
