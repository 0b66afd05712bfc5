"""The programs that pages start, forked from one interpreter that has their modules: each would import them for a second."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forked_command import ForkedCommand, Program, reactor_main

#: the variable with the port that a page's servers have instead of 8080
PORT = "REACTOR_DOCS_PORT"
Started = ForkedCommand | subprocess.Popen[str]


def start(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Started:
    """Start a command without a shell's signs in it. Its output and errors are one pipe, its input is empty."""
    known = FORKED.get(words[0])
    if known is None:
        return subprocess.Popen(
            words, cwd=folder, env=dict(variables), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    return ForkedCommand(words[1:], cwd=folder, env=variables, stderr=subprocess.STDOUT, main=known)


def _reactor_main(words: Sequence[str]) -> int:
    """`reactor`, whose server has the page's port instead of 8080 by default."""
    if words[:1] == ["run"] and "--port" not in words:
        words = [*words, "--port", os.environ[PORT]]
    return reactor_main(words)


def _python_main(words: Sequence[str]) -> int:
    """What `python` does with a file, with `-m` or `-c`; a program that calls `run` has the page's port by default, too."""
    import reactor_trio

    plain, port = reactor_trio.run, int(os.environ[PORT])
    reactor_trio.run = lambda model, **options: plain(model, **{"port": port, **options})
    if words[0] == "-m":
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")
    return 0


def _pytest_main(words: Sequence[str]) -> int:
    import pytest

    os.environ.pop("PYTEST_CURRENT_TEST", None)
    imported = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # this interpreter has the plug-ins' modules already
    return int(pytest.main([*words, "-p", "no:cacheprovider", "-p", "no:randomly", *imported]))


FORKED: dict[str, Program] = {"reactor": _reactor_main, "python": _python_main, "pytest": _pytest_main}
