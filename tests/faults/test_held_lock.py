"""C code that holds the interpreter's lock, so that no Python code of the server runs: no thread, no handler of a signal."""

from __future__ import annotations

import re
import signal
import time

import pytest
from tests.faults.test_process_faults import may_run
from tests.support.fault_checks import wait_for
from tests.support.fault_peers import PATIENCE, RawClient, health, reactor_run

from reactor_trio.server.lock_watch import EXIT_CODE

MODEL = """
import ctypes
import os
import signal
import sys
import time
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    fps = 20
    held = 0

    def load(self, config):
        hold(LOAD)

    @event
    def hold(self, seconds: float):
        self.held = seconds

    @event
    def end_a_fork(self):
        # With two signals: the handlers that it inherited take the second for their last.
        if (child := os.fork()) == 0:
            while True:
                time.sleep(0.01)
        while os.waitpid(child, os.WNOHANG) == (0, 0):  # Python drops what arrives before the child is ready
            os.kill(child, signal.SIGTERM)
            time.sleep(0.1)

    def inference(self):
        while True:
            seconds, self.held = self.held, 0
            hold(seconds)
            yield Picture(main=np.zeros((8, 8, 3), np.uint8))

def hold(seconds):
    if not seconds:
        return
    # Who reads the line may rely on it. print() gives the lock back while it writes, and Python on request between calls.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    time.sleep(0.02)  # who waits for the lock by the old interval has it
    ctypes.PyDLL(None).write(2, b"the lock is held\\n", 17)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    sys.setswitchinterval(usual)
"""


def model(load: float = 0.0) -> str:
    return MODEL.replace("LOAD", str(load))


def held(server, client: RawClient, seconds: float, times: int = 1) -> None:
    """Let a step hold the lock, and wait until it does."""
    client.picture()
    client.say("hold", seconds=seconds)
    wait_for(lambda: server.log.count("the lock is held") == times, "the step")


@pytest.mark.parametrize("first", [False, True], ids=["a later step", "the first step"])
def test_a_step_that_never_gives_the_lock_back_ends_the_process(tmp_path, first):
    limits = {"step_timeout": 0.0 if first else 1.0, "first_step_timeout": 1.0 if first else 0.0}
    source = model().replace("held = 0", "held = 1000") if first else model()
    with reactor_run(tmp_path, source, watchdog=0.5, **limits) as server, RawClient(server.port) as client:
        if not first:
            for _ in range(20):  # the beat after the first picture says that one was made
                client.picture()
            held(server, client, 1000)
        assert server.process.wait(PATIENCE) == EXIT_CODE
        why = r"reactor: no Python code has run for [0-9.]+ s, and C code holds the interpreter's lock; the process ends"
        assert re.search(why, server.log)
        assert re.search(r'model\.py", line \d+ in hold', server.log)


def test_it_ends_also_as_the_first_process_of_a_container(tmp_path):
    """Which no signal ends that it does not handle itself."""
    container = ["unshare", "--pid", "--fork", "--mount-proc"]
    if not may_run(*container, "true"):
        pytest.skip("needs a namespace of processes (root, or CAP_SYS_ADMIN)")
    source = model().replace("held = 0", "held = 1000")
    limits = {"step_timeout": 0.5, "first_step_timeout": 0.5, "watchdog": 0.5}
    with reactor_run(tmp_path, source, prefix=container, **limits) as server, RawClient(server.port):
        assert server.process.wait(PATIENCE) == EXIT_CODE
        assert "reactor: no Python code has run for" in server.log


def test_a_call_that_returns_in_its_time_and_a_pause_end_nothing(tmp_path):
    """The time of a step is `step_timeout` and what the watchdog waits; the pause is longer. Nor do signals of a child."""
    runtime = {"watchdog": 0.5, "step_timeout": 2.0, "first_step_timeout": 2.0}
    with reactor_run(tmp_path, model(load=4.0), **runtime) as server, RawClient(server.port, pongs=True) as client:
        client.say("end_a_fork", 1)
        client.answer(1)
        held(server, client, 1.9, times=2)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        server.process.send_signal(signal.SIGCONT)
        for _ in range(3):
            client.picture()
        assert health(server.port)[0] == 200


@pytest.mark.parametrize("before", [0, 1])
def test_a_second_signal_to_stop_ends_the_process_at_once(tmp_path, before):
    """`before`: how many of the two come before the lock is held. Steps may take any time here."""
    runtime = {"step_timeout": 0.0, "first_step_timeout": 0.0, "drain_notice": 100.0}
    with reactor_run(tmp_path, model(), **runtime) as server, RawClient(server.port) as client:
        if before:
            client.picture()
            server.process.send_signal(signal.SIGTERM)
            client.text("reactor.ending")
        held(server, client, 1000)
        for _ in range(2 - before):
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)  # two of a kind that come at once are one to the system
        assert server.process.wait(PATIENCE) == EXIT_CODE
        assert "it got a second signal to stop, and C code holds" in server.log


def test_a_second_signal_that_python_can_handle_has_its_own_exit_code(tmp_path):
    with reactor_run(tmp_path, model(), drain_notice=100.0) as server, RawClient(server.port) as client:
        client.picture()
        server.process.send_signal(signal.SIGTERM)
        client.text("reactor.ending")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert "interpreter's lock" not in server.log
