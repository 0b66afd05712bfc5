"""How a process that serves has set up its interpreter, as the model in it sees it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest
from tests.support.cli_doubles import reactor
from tests.support.real_server import ENVIRONMENT, REACTOR
from tests.support.started_program import started_program

from reactor_trio.interpreter import importing

MODEL = """
import gc, json, sys
import numpy as np
from reactor_trio import Output, ReactorPipeline, Video

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    output: Picture

    def inference(self):
        print("seen:", json.dumps([gc.get_threshold()[1], gc.get_freeze_count(), sys.getswitchinterval()]), flush=True)
        while True:
            yield np.zeros((16, 16, 3), np.uint8)
"""


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_threads_take_turns_quickly_and_collections_are_rare(tmp_path, isolation):
    (tmp_path / "model.py").write_text(MODEL)
    manifest = {"model": "model:Model", "name": "looking", "runtime": {"isolation": isolation}}
    (tmp_path / "reactor.yaml").write_text(json.dumps(manifest))
    with started_program([*REACTOR, "run", "--port", "0"], r"ready: (http://\S+)", cwd=tmp_path, env=ENVIRONMENT) as server:
        assert reactor("client", server.ready, "--seconds", "0.5").returncode == 0
    seen = next(line for line in server.said if line.startswith("seen: "))
    between_middle, frozen, switch = json.loads(seen.removeprefix("seen: "))
    assert (between_middle, switch) == (100, 0.001)
    if isolation == "process":  # the server's own process does it later, when its encoders are known
        assert frozen > 10_000


def test_the_first_small_collection_after_imports_does_not_look_at_them():
    looked_at = []

    def collection(phase, _info):
        if phase == "start":
            looked_at.append(len(gc.get_objects(generation=0)))

    gc.callbacks.append(collection)
    try:
        with importing():
            made = [[] for _ in range(10_000)]
        assert gc.isenabled()
        gc.collect(0)
    finally:
        gc.callbacks.remove(collection)
    assert max(looked_at) < 1_000 < len(made)


#: Ctrl-C as the program imports the module that the first argument names; then the command line.
INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
class Interrupts:
    @staticmethod
    def find_spec(name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts)
from reactor_trio.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("module", ["argparse", "reactor_trio.cli.terminal", "reactor_trio.cli.doctor"])
def test_ctrl_c_while_it_imports_ends_it_without_a_traceback(module):
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, "doctor"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
