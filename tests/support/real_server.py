"""A real server for the tests of the page: `reactor run` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.forked_command import WITH_TESTS, ForkedCommand
from tests.support.started_program import until_it_says

REACTOR = [sys.executable, "-m", "reactor_trio"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": WITH_TESTS}


@contextmanager
def real_server(project: Path, *options: str) -> Iterator[str]:
    """The address of `reactor run` in the folder `project`. It has to drain and exit with 0 at the end of the block."""
    process = ForkedCommand(["run", "--port", "0", *options], cwd=project, env=ENVIRONMENT, stderr=subprocess.STDOUT)
    with until_it_says(r"ready: (http://\S+)", process) as server:
        yield server.ready
        server.process.send_signal(signal.SIGINT)
        server.process.wait()
    assert server.process.returncode == 0, "".join(server.said)
