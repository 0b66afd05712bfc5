"""The process that watches for `lock_watch` whether the server's process can still run Python code.

It runs as a file of its own, with nothing but the standard library: `lock_watcher.py PID DUMP END SECONDS ...`. On its
standard input come bytes. A byte from 128 on is a beat, and names by its lower bits the number of `SECONDS` for which the
next one may be awaited; 0 means for ever. A smaller byte is a signal that the server's process got. The input ends with the
server.

It measures time by the number of its looks. A look at a stopped process does not count, and while this process itself is
stopped or frozen it does not look. So a pause of the machine never ends a server.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

BEAT = 128
#: seconds between two looks
LOOK = 0.5
#: seconds for which a second SIGTERM or SIGINT may wait for Python, and for which the server may write where it hangs
GRACE = 1.0


def watch(server: int, dump: int, end: int, limits: list[float]) -> None:
    """Watch until the server's process ends, or must be ended."""
    silent, limit, stops = 0.0, 0.0, 0
    while os.getppid() == server:
        if select.select([0], [], [], LOOK)[0]:
            if not (said := os.read(0, 4096)):
                return
            for byte in said:
                if byte >= BEAT:
                    silent, limit = 0.0, limits[byte - BEAT]
                elif byte in (signal.SIGINT, signal.SIGTERM):
                    stops += 1
            if stops >= 2 and not _ends_by_itself(server):
                end_server(server, dump, end, "it got a second signal to stop")
        elif not _stopped(server):
            silent += LOOK
            if 0 < limit < silent:
                end_server(server, dump, end, f"no Python code has run for {silent:g} s")


def end_server(server: int, dump: int, end: int, why: str) -> None:
    """Say why, let the process write the stack of each thread, and end it. Neither needs the interpreter's lock."""
    with suppress(OSError):
        print(f"reactor: {why}, and C code holds the interpreter's lock; the process ends", file=sys.stderr, flush=True)
    for number in (dump, end, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(server, number)
        if _ends_by_itself(server):
            break
    sys.exit()


def _ends_by_itself(server: int) -> bool:
    """Whether the server's process ends within `GRACE`."""
    poll = select.poll()
    poll.register(0, 0)  # it tells a hang-up alone, not input
    return bool(poll.poll(GRACE * 1000)) or os.getppid() != server


def _stopped(server: int) -> bool:
    try:
        with open(f"/proc/{server}/stat", "rb") as file:  # pathlib would cost a megabyte of memory
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [float(seconds) for seconds in sys.argv[4:]])
