"""Children of a process, and what they have of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def in_a_fork(say: Callable[[], str]) -> str:
    """What `say` returns in a forked child of this process."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writer, say().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def lives(pid: int) -> bool:
    """Whether that process runs."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def open_in(pid: int | str) -> set[str]:
    """What its descriptors are: a path, or `socket:` with the number of its inode."""
    names = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            names.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return names


def at_port(port: int) -> set[str]:
    """The sockets of this machine that use the port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{line[9]}]" for line in lines if int(line[1].rpartition(":")[2], 16) == port}
