"""What a model in a process of its own costs in descriptors, and what happens when a process has none left."""

from __future__ import annotations

import os
import resource

import pytest
from tests.support.fault_peers import RawClient, reactor_run
from tests.support.isolated_models import MODEL
from tests.support.model_processes import until_served

#: Models' processes here may have so many descriptors.
MOST = 48


@pytest.fixture
def served(tmp_path):
    with reactor_run(tmp_path, MODEL, isolation="process") as server:
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
