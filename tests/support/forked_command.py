"""`reactor` in a process that is forked from an interpreter which has its modules already.

A new interpreter takes half a second of a processor for its imports. Tests of how the program starts, of its terminal, and
of what it inherits start a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any, NoReturn, Self

import reactor_trio

SOURCE = str(Path(reactor_trio.__file__).parents[1])  # not only where the package is installed
#: for a program that imports the tests' own modules, too
WITH_TESTS = os.pathsep.join((SOURCE, str(Path(__file__).parents[2])))
#: of reactor_trio: what commands import, and what a server imports when it starts
_MODULES = ("cli.command_line", "cli.serving", "client", "typegen", "server.serve", "media", "loadtest")
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([f"reactor_trio.{name}" for name in _MODULES])

Program = Callable[[Sequence[str]], int]


def reactor_main(words: Sequence[str]) -> int:
    """The program of `python -m reactor_trio`."""
    from reactor_trio.cli import main

    return main(words)


class ForkedCommand:
    """A process with what tests use of a `subprocess.Popen` in text mode: its first argument, output and signals.

    `main` is called in it with `words`, in the folder `cwd` and with the variables `env`; both default to those of the test,
    and the package is found in any case. Its input is empty. `stdout` and `stderr` are a pipe, a file, or for `stderr` what
    `stdout` is. The end of a block closes the pipes and waits.
    """

    def __init__(
        self,
        words: Sequence[object],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.PIPE,
        main: Program = reactor_main,
    ) -> None:
        self.stdout, theirs_out = _output(stdout)
        self.stderr, theirs_err = (None, theirs_out) if stderr == subprocess.STDOUT else _output(stderr)
        variables = dict(os.environ if env is None else env) | {"PYTHONPATH": SOURCE if env is None else env["PYTHONPATH"]}
        self.words = list(map(str, words))
        arguments = (main, self.words, str(cwd or Path.cwd()), variables)
        self._process = _FORKS.Process(target=_run, args=(*arguments, _Descriptor(theirs_out), _Descriptor(theirs_err)))
        self._process.start()
        for theirs, given in ((theirs_out, stdout), (theirs_err, stderr)):
            if given == subprocess.PIPE:
                os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for output in filter(None, (self.stdout, self.stderr)):
            output.close()
        self.wait()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("reactor", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it still writes, then its end."""
        with ThreadPoolExecutor() as pool:
            said = [pool.submit(output.read) for output in (self.stdout, self.stderr) if output is not None]
        self.wait(timeout)
        out, err = [each.result() for each in said] + [""] * (2 - len(said))
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Descriptor:
    """A file descriptor that the new process gets a copy of."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (reduction.DupFd(self._number),)


def _detached(copy: Any) -> int:
    return copy.detach()


def _output(where: int | IO[Any]) -> tuple[IO[str] | None, int]:
    """What the test reads, and what the process writes to."""
    if where == subprocess.PIPE:
        ours, theirs = os.pipe()
        return open(ours, encoding="utf-8"), theirs
    return None, where if isinstance(where, int) else where.fileno()


def _run(main: Program, words: list[str], cwd: str, variables: dict[str, str], stdout: int, stderr: int) -> NoReturn:
    """The process: as a new interpreter in this folder, with these variables and this output."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, stdout, stderr)):
        os.dup2(descriptor, number)
    for descriptor in {nothing, stdout, stderr} - {0, 1, 2}:
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the process ends with it
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = [str(Path(reactor_trio.__file__).parent / "__main__.py"), *words]
    sys.path[:0] = [cwd, *variables["PYTHONPATH"].split(os.pathsep)]
    sys.exit(main(words))
