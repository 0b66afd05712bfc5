"""A real server for the tests of the page: `reactor run` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import reactor_trio

REACTOR = [sys.executable, "-m", "reactor_trio"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{Path(reactor_trio.__file__).parents[1]}:{Path(__file__).parents[2]}"}


@contextmanager
def real_server(project: Path, *options: str) -> Iterator[str]:
    """The address of `reactor run` in the folder `project`. It has to drain and exit with 0 at the end of the block."""
    with subprocess.Popen(
        [*REACTOR, "run", "--port", "0", *options],
        cwd=project, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            said = []
            for line in server.stdout:
                said.append(line)
                if found := re.search(r"ready: (http://\S+)", line):
                    break
            else:
                pytest.fail("the server did not start:\n" + "".join(said))
            # Read on, or the server waits when the pipe is full.
            reader = threading.Thread(target=said.extend, args=(server.stdout,))
            reader.start()
            yield found[1]
            server.send_signal(signal.SIGINT)
            reader.join()
            assert server.wait() == 0, "".join(said)
        finally:
            server.kill()
