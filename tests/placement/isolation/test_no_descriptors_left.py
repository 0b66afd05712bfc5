"""What a model in a process of its own costs in descriptors, and what happens when a process has none left."""

from __future__ import annotations

import os
import resource
import signal

import pytest
from tests.support.fault_checks import wait_for
from tests.support.fault_peers import RawClient, ask, reactor_run
from tests.support.isolated_models import MODEL
from tests.support.model_processes import until_served

#: says by a file of its process's number when that process has imported all that belongs to its start
WATCHED = MODEL + '''
import gc
import os
import pathlib
import threading
import time

def watch():
    while not gc.get_freeze_count():
        time.sleep(0.02)
    pathlib.Path(f"at-rest.{os.getpid()}").touch()

threading.Thread(target=watch, daemon=True).start()
'''


@pytest.fixture
def served(tmp_path):
    with reactor_run(tmp_path, WATCHED, isolation="process") as server:
        yield server
        print(server.log)  # shown if the test fails


def process_of(client):
    client.say("process", 1)
    return client.answer(1)["data"]["reply"]


def limit(pid, descriptors):
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors, hard))


def open_in(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_sessions_one_after_another_take_no_descriptors(served):
    with RawClient(served.port) as client:
        client.picture()
        model = process_of(client)["pid"]
    limit(model, open_in(model) + 20)
    for _ in range(40):
        with until_served(served) as client:
            client.picture()
            assert process_of(client)["pid"] == model


def test_a_model_without_a_descriptor_left_goes_on_making_frames(served):
    with RawClient(served.port) as client:
        client.picture()
        model = process_of(client)["pid"]
    limit(model, 3)  # fewer than are open
    for level in (1, 2):
        with until_served(served) as client:
            client.say("set_level", 2, level=level)
            client.answer(2)
            for _ in range(30):
                client.picture()
    limit(model, 1000)
    with until_served(served) as client:
        assert process_of(client)["pid"] == model


def test_a_server_without_a_descriptor_left_loads_its_model_again_when_it_has_one(served, tmp_path):
    wait_for((tmp_path / f"at-rest.{served.process.pid}").exists, "the end of the start")
    # This answer needs imports of its own.
    assert ask(served.port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")[0] == 200
    with RawClient(served.port) as client:
        client.picture()
        model, pid = process_of(client)["pid"], served.process.pid
        open_now = open_in(pid)
        limit(pid, 3)
        os.kill(model, signal.SIGKILL)
        served.wait_log("its process cannot be started: Too many open files; trying again")
        limit(pid, open_now + 50)
    with until_served(served) as client:
        client.picture()
        assert process_of(client)["pid"] != model
