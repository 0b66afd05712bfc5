"""A program that a test starts, and that says by a line of its output when it can be used."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.forked_command import ForkedCommand

#: how terminals are told a colour
COLOUR = re.compile(r"\x1b\[\d+m")


@dataclass(frozen=True)
class StartedProgram:
    process: subprocess.Popen[str] | ForkedCommand
    #: the first group of the pattern that told that it is ready
    ready: str
    #: the lines of its output so far, errors among them
    said: list[str]


@contextmanager
def started_program(
    command: Sequence[str | Path], pattern: str, *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Iterator[StartedProgram]:
    """Start `command`, and wait for a line of its output that matches `pattern`, colours left out. The end kills it."""
    process = subprocess.Popen(command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with until_it_says(pattern, process) as program:
        yield program


@contextmanager
def until_it_says(pattern: str, started: subprocess.Popen[str] | ForkedCommand) -> Iterator[StartedProgram]:
    """Wait as `started_program` does, for a process whose output holds its errors, too. The end kills it."""
    with started as process:
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if found := re.search(pattern, COLOUR.sub("", line)):
                    break
            else:
                raise AssertionError("it did not start:\n" + "".join(said))
            # Read on, or the program waits when the pipe is full.
            reader = threading.Thread(target=said.extend, args=(process.stdout,))
            reader.start()
            try:
                yield StartedProgram(process, found[1], said)
            finally:
                process.kill()
                reader.join()
        finally:
            process.kill()
