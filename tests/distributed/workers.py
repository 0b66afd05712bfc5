"""Worker classes of the tests, in a module of their own: a rank's process imports it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import connection
from typing import Any

import numpy as np


class Full(Exception):
    """A model's own error."""


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("cannot cross")
        self.lock = threading.Lock()


def write_a_part_and_stop(descriptor: int, data: Any) -> int:
    written = os.write(descriptor, data[:1000])
    os.kill(os.getpid(), signal.SIGSTOP)
    return written


class Worker:
    """Does what its input says."""

    rank: int
    world_size: int
    device: Any

    def load(self, offset: int = 0, broken: int | None = None, dies: int | None = None) -> None:
        if self.rank == broken:
            raise OSError("no weights")
        if self.rank == dies:
            os._exit(3)
        self.offset = offset
        self.calls = 0

    def generate(self, given: Any) -> Any:
        self.calls += 1
        match given:
            case np.ndarray():
                return given + self.offset + self.rank
            case ("describe",):
                return self.rank, self.world_size, str(self.device), self.calls, os.getpid()
            case ("raise", ranks):
                if self.rank in ranks:
                    raise Full(f"rank {self.rank}")
            case ("raise each its own",):
                raise Full if self.rank else ValueError
            case ("unpicklable",):
                raise Unpicklable
            case ("die", rank):
                if self.rank == rank:
                    os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()  # as in a collective operation: for ever
            case ("hang", rank):
                if self.rank == rank:
                    threading.Event().wait()
            case ("raise and hang",):
                if self.rank == 0:
                    raise Full
                threading.Event().wait()
            case ("stop in the answer", rank) if self.rank == rank:
                connection.Connection._send.__defaults__ = (write_a_part_and_stop,)  # type: ignore[attr-defined]
                return bytes(1 << 20)
            case ("child",):
                return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]).pid
            case _:
                return given
        return None

    def reset(self) -> None:
        self.calls = 0


class Summing:
    """Adds its input over all ranks by torch's process group."""

    rank: int

    def load(self) -> None: ...

    def generate(self, tensor: Any) -> Any:
        import torch.distributed

        total = tensor * (self.rank + 1)
        torch.distributed.all_reduce(total)
        return total

    def reset(self) -> None: ...
