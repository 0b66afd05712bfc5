"""A real server for the tests of the page: `reactor run` in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import reactor_trio
from tests.support.started_program import started_program

REACTOR = [sys.executable, "-m", "reactor_trio"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{Path(reactor_trio.__file__).parents[1]}:{Path(__file__).parents[2]}"}


@contextmanager
def real_server(project: Path, *options: str) -> Iterator[str]:
    """The address of `reactor run` in the folder `project`. It has to drain and exit with 0 at the end of the block."""
    command = [*REACTOR, "run", "--port", "0", *options]
    with started_program(command, r"ready: (http://\S+)", cwd=project, env=ENVIRONMENT) as server:
        yield server.ready
        server.process.send_signal(signal.SIGINT)
        server.process.wait()
    assert server.process.returncode == 0, "".join(server.said)
