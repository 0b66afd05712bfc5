"""A fake server for tests of the command line, and a function that runs the command line as a process.

As a script this module is `reactor` with the fake server: `python cli_doubles.py BEHAVIOUR run --path ...`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import trio
import trio.lowlevel

import reactor_trio
from reactor_trio.cli.serving import cannot_listen
from reactor_trio.errors import ModelFailed

SOURCE = str(Path(reactor_trio.__file__).parents[1])  # not only where the package is installed
#: The environment of a process on its own terminal, without variables that describe the terminal of the tests.
ON_A_TERMINAL = {
    name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
} | {"PYTHONPATH": SOURCE, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}

#: A model in one file.
SKY = """\
import os
import numpy as np
from reactor_trio import Output, ReactorPipeline, Video, run

class Picture(Output):
    main_video: Video

class Sky(ReactorPipeline):
    fps = 10

    def load(self, config):
        print("loaded with", config, flush=True)
        print("model process", os.getpid(), flush=True)

    def inference(self):
        while True:
            yield Picture(main_video=np.full((48, 64, 3), 9, np.uint8))
"""


@dataclass
class Serving:
    url: str
    port: int
    runtime: SimpleNamespace
    certificates: None = None

    @property
    def urls(self) -> list[str]:
        return [self.url]


def stand_in(behaviour: str):
    """Return a fake `serve` with one behaviour. It sends signals to its own process, so that no test depends on timing."""

    async def serve(
        manifest, *, debug=False, listeners=None, drain=None, on_phase=None, on_progress=None,
        task_status=trio.TASK_STATUS_IGNORED,
    ):
        port = manifest.settings.port or 4321
        if behaviour == "load_fails":
            try:
                manifest.model().load(manifest.config)
            except Exception as error:
                raise ModelFailed("load() failed") from error
        if behaviour == "signal_while_loading":
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        runtime = SimpleNamespace(
            encoders={"h264": "libx264", "raw": "none"}, prepared=trio.Event(), at_rest=trio.Event(),
            sessions=(), drain_notice=0.0, facts=None,
        )  # fmt: skip
        task_status.started(Serving(f"http://{manifest.settings.host}:{port}/", port, runtime))
        runtime.prepared.set()
        runtime.at_rest.set()
        await trio.testing.wait_all_tasks_blocked()  # the caller has printed its line
        if behaviour == "run_returns":
            raise ModelFailed("run() returned, so there is no model to serve")
        if behaviour == "bug":
            raise AssertionError("two sessions in one room")
        if behaviour.startswith("hung_up"):
            os.kill(os.getpid(), signal.SIGHUP)
        elif behaviour not in ("waits", "stubborn"):
            os.kill(os.getpid(), signal.SIGINT if behaviour == "interrupted" else signal.SIGTERM)
        await drain.wait()
        if behaviour == "hung_up_twice":
            os.kill(os.getpid(), signal.SIGHUP)
            await trio.lowlevel.checkpoint()
        if behaviour == "two_signals":
            os.kill(os.getpid(), signal.SIGTERM)
        if behaviour in ("two_signals", "stubborn"):
            await trio.sleep_forever()

    return serve


async def no_port(manifest):
    """Stand in for `listen`: the fake server needs no socket."""
    await trio.lowlevel.checkpoint()
    if sys.argv[1] == "taken":
        raise cannot_listen(manifest, OSError(98, "Address already in use"))
    return []


def reactor(*arguments, behaviour=None, stdout=subprocess.PIPE, path="", **named) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process: with a behaviour on the fake server, without one on the real server."""
    if behaviour is None and stdout == subprocess.PIPE and not path and named.keys() <= {"cwd"}:
        return reactor_in_a_fork(*arguments, **named)
    program = ["-m", "reactor_trio"] if behaviour is None else [__file__, behaviour]
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)], env=os.environ | {"PYTHONPATH": f"{path}:{SOURCE}"},
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **named,
    )  # fmt: skip


#: Has imported what commands import, and forks a process for each of them. A new interpreter takes half a second.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([f"reactor_trio.{name}" for name in ("cli.command_line", "cli.serving", "client", "typegen")])


def reactor_in_a_fork(*arguments, cwd=None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that has the modules already."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("stdout", "stderr")]
        words, environment = list(map(str, arguments)), os.environ | {"PYTHONPATH": SOURCE}
        process = FORKS.Process(target=_command_line, args=(words, str(cwd or Path.cwd()), environment, outputs))
        process.start()
        process.join(120)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, 120)
        return subprocess.CompletedProcess(words, process.exitcode, *(output.read_text() for output in outputs))


def _command_line(words: list[str], cwd: str, environment: dict[str, str], outputs: list[Path]) -> NoReturn:
    """The process: as `python -m reactor_trio` in this folder, with these variables and files for its output."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, output in enumerate(outputs, start=1):
        with output.open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - the process ends with it
    sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = [str(Path(reactor_trio.__file__).parent / "__main__.py"), *words]
    sys.path[:0] = [cwd, SOURCE]

    from reactor_trio.cli import main

    sys.exit(main())


if __name__ == "__main__":
    import trio.testing

    from reactor_trio.cli import main
    from reactor_trio.cli import run_reloading as reload

    importlib.import_module("reactor_trio.server.serve").serve = stand_in(sys.argv[1])
    importlib.import_module("reactor_trio.cli.local_server").listen = no_port
    reload.PROGRAM = (__file__, sys.argv[1])
    sys.exit(main(sys.argv[2:]))
