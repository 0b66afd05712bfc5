"""An encoder library does not decide how this process is scheduled.

SVT-AV1, where it may (as root), makes the thread that opens an encoder and each of its own a real-time one (SCHED_FIFO,
99). Such a thread is never preempted by an ordinary one, so what runs in it next, in a pool or as a child process, keeps
loops and disks waiting for as long as it computes: seconds, where there are as many as processors.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def ordinary_scheduling() -> Generator[None, None, None]:
    """After the block the calling thread, and those that came meanwhile, are scheduled as the calling one was before."""
    if not hasattr(os, "sched_setscheduler") or os.geteuid() != 0:
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    before = _threads()
    try:
        yield
    finally:
        for thread in (0, *(_threads() - before)):
            with suppress(ProcessLookupError):  # it has ended
                if os.sched_getscheduler(thread) != policy:
                    os.sched_setscheduler(thread, policy, priority)


def _threads() -> set[int]:
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except OSError:
        return set()
