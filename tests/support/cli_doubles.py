"""A fake server for tests of the command line, and a function that runs the command line as a process.

As a script this module is `reactor` with the fake server: `python cli_doubles.py BEHAVIOUR run --path ...`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import trio
import trio.lowlevel

from reactor_trio.cli.serving import cannot_listen
from reactor_trio.errors import ModelFailed
from tests.support.forked_command import SOURCE, WITH_TESTS, ForkedCommand, reactor_main

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
        manifest, *, debug=False, listeners=None, on_phase=None, on_progress=None,
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
        if behaviour in ("stubborn", "hangs"):
            start_worker()
        await trio.lowlevel.checkpoint()
        drain = trio.Event()
        runtime = SimpleNamespace(
            preparation=SimpleNamespace(
                encoders={"h264": "libx264", "raw": "none"}, tried=trio.Event(), at_rest=trio.Event()
            ),
            sessions=(), facts=None, begin_drain=lambda _reason="draining": drain.set(),
        )  # fmt: skip
        task_status.started(Serving(f"http://{manifest.settings.host}:{port}/", port, runtime))
        runtime.preparation.tried.set()
        runtime.preparation.at_rest.set()
        await trio.testing.wait_all_tasks_blocked()  # the caller has printed its line
        if behaviour == "crashes":
            ctypes.string_at(0)
        if behaviour == "aborts":
            os.abort()
        if behaviour == "run_returns":
            raise ModelFailed("run() returned, so there is no model to serve")
        if behaviour == "bug":
            raise AssertionError("two sessions in one room")
        if behaviour.startswith("hung_up"):
            os.kill(os.getpid(), signal.SIGHUP)
        elif behaviour not in ("waits", "stubborn", "hangs"):
            os.kill(os.getpid(), signal.SIGINT if behaviour == "interrupted" else signal.SIGTERM)
        await drain.wait()
        if behaviour == "hung_up_twice":
            os.kill(os.getpid(), signal.SIGHUP)
            await trio.lowlevel.checkpoint()
        if behaviour == "two_signals":
            os.kill(os.getpid(), signal.SIGTERM)
        if behaviour in ("two_signals", "stubborn", "hangs"):
            await trio.sleep_forever()

    return serve


def start_worker() -> None:
    """Start a process of the model's that says "left over" if this process ends and leaves it behind."""
    reader, _until_this_process_ends = os.pipe()
    subprocess.Popen(["sh", "-c", "cat > /dev/null; echo left over"], stdin=reader)
    os.close(reader)


async def no_port(behaviour, manifest):
    """Stand in for `listen`: the fake server needs no socket."""
    await trio.lowlevel.checkpoint()
    if behaviour == "taken":
        raise cannot_listen(manifest, OSError(98, "Address already in use"))
    return []


def without_links(text: str) -> str:
    """Leave out where the remedy of an error is, with which its line ends; `test_first_day.py` has these."""
    return re.sub(r" \(docs/reference/errors\.md#[a-z-]+\)$", "", text, flags=re.MULTILINE)


def reactor(*arguments, behaviour=None, stdout=subprocess.PIPE, cwd=None) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process: with a behaviour on the fake server, without one on the real server.

    `stderr` of the result is without links, see `without_links`.
    """
    main = reactor_main if behaviour is None else partial(on_the_fake_server, behaviour)
    variables = os.environ | {"PYTHONPATH": WITH_TESTS}
    with ForkedCommand(arguments, cwd=cwd, env=variables, stdout=stdout, main=main) as process:
        out, err = process.communicate(120)
        return subprocess.CompletedProcess(process.words, process.wait(), out, without_links(err))


def on_the_fake_server(behaviour, words) -> int:
    """Run the command line in this process with the fake server in place of the real one."""
    import trio.testing  # noqa: F401 - `stand_in` waits with it

    from reactor_trio.cli import main
    from reactor_trio.cli import run_reloading as reload

    importlib.import_module("reactor_trio.server.serve").serve = stand_in(behaviour)
    importlib.import_module("reactor_trio.cli.local_server").listen = partial(no_port, behaviour)
    reload.PROGRAM = (__file__, behaviour)
    if behaviour == "hangs":
        reload.PATIENCE = 0.1
    return main(words)


if __name__ == "__main__":
    sys.exit(on_the_fake_server(sys.argv[1], sys.argv[2:]))
