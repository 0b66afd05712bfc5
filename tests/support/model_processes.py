"""What tests of models in processes of their own wait for: a model that is there again, and nothing left of the old one."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from tests.support.fault_peers import PATIENCE, RawClient, ReactorProcess, health


def until_served(server: ReactorProcess) -> RawClient:
    """A client of the model that is there again."""
    until = time.monotonic() + PATIENCE
    while health(server.port)[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.02)
    client = RawClient(server.port)
    client.text("reactor.welcome")
    return client


def is_gone(pid: int) -> bool:
    """Whether that process has ended, waited for."""
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, f"{pid} is still there"
        time.sleep(0.01)
    return True


def children(pid: int) -> list[int]:
    """The processes with code of the model that it has started and that live."""
    found = [int(child) for task in os.listdir(f"/proc/{pid}/task")
             for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]  # fmt: skip
    return [child for child in found if b"lock_watcher" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def without_frames(server: ReactorProcess) -> Counter[str]:
    """What its descriptors are besides the few of frames that are seen now."""
    return Counter(name for name in server.descriptors() if "reactor-frames" not in name)


def nothing_more_is_open(server: ReactorProcess, before: Counter[str]) -> bool:
    """Whether it holds no descriptor that it did not hold before, waited for: closed connections may be there yet."""
    until = time.monotonic() + PATIENCE
    while more := without_frames(server) - before:
        assert time.monotonic() < until, more
        time.sleep(0.01)
    return True
