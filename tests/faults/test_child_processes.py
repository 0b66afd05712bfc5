"""Processes that model code starts, with real processes: none of them keeps what is the server's or the link's.

Each server here is killed (SIGKILL) while what its model has started lives on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.child_processes import at_port, lives, open_in
from tests.support.fault_peers import PATIENCE, RawClient, ReactorProcess, reactor_run
from tests.support.model_processes import is_gone, until_served

MODEL = '''
import ctypes, json, multiprocessing, os, signal, subprocess, time
import numpy as np
from reactor_trio import *

class Picture(Output):
    main_video: Video

def forked():
    if not (child := os.fork()):
        time.sleep(1000)
    return child

def worker():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    process.start()
    return process.pid

def program():
    return subprocess.Popen(["sleep", "1000"]).pid

def careless():
    return subprocess.Popen(["sleep", "1000"], close_fds=False).pid

def in_c():
    """A fork that Python does not see."""
    libc = ctypes.PyDLL(None)
    if not (child := libc.fork()):
        libc.sleep(1000)
    return child

class Model(BASE):
    output: Picture
    fps = 30

    def load(self, config):
        self.note("loads", IN_LOAD)
        self.started = False

    def note(self, when, starts):
        with open("children", "a") as file:
            for start in starts:
                file.write(f"{start()} {os.getpid()} {when} {start.__name__}\\n")

    @event
    def start(self):
        self.note("handles", IN_STEP)
        return os.getpid()

    def inference(self):
        picture = np.zeros((64, 64, 3), np.uint8)
        while True:
            if not self.started:
                self.started = True
                self.note("steps", IN_STEP)
            yield picture
'''
ALL = "(forked, worker, program, careless)"


def model(base: str = "ReactorPipeline", in_load: str = ALL, in_step: str = ALL) -> str:
    return MODEL.replace("BASE", base).replace("IN_LOAD", in_load).replace("IN_STEP", in_step)


def children(folder: Path) -> list[int]:
    return [int(line.split()[0]) for line in (folder / "children").read_text().splitlines()]


@contextmanager
def served(folder: Path, source: str, *arguments: str, **runtime: Any) -> Iterator[ReactorProcess]:
    """A server whose children end with the block."""
    try:
        with reactor_run(folder, source, *arguments, **runtime) as server:
            yield server
    finally:
        for child in children(folder):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("arguments", [[], pytest.param(["--reload"], marks=pytest.mark.soak)], ids=["run", "reload"])
def test_a_child_in_the_server_keeps_neither_port_nor_clients(tmp_path, arguments):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    record = {"record": str(tmp_path / "films")}
    arguments = ["--port", "0", *arguments]
    with served(first, model(), *arguments, **record) as server, RawClient(server.port) as client:
        client.picture()
        client.say("start", 1)
        pid = client.answer(1)["data"]["reply"]
        started = children(first)
        assert len(started) == 12
        assert not [child for child in started if open_in(child) & at_port(server.port)]
        assert not [name for child in started for name in open_in(child) if "films" in name]
        if arguments[2:]:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(PATIENCE)
            return  # a supervisor held the port
        os.kill(pid, signal.SIGKILL)
        assert client.gone().code is None  # at once: nobody holds the connection any more
        assert all(map(lives, started))
        with reactor_run(second, model(in_load="()", in_step="()"), "--port", str(server.port)) as again:
            with RawClient(again.port) as other:
                other.picture()


@pytest.mark.parametrize(
    ("base", "runtime"),
    [
        ("ReactorPipeline", {"isolation": "process"}),
        pytest.param("DistributedPipeline", {"ranks": 2}, marks=pytest.mark.soak),
    ],
    ids=["process", "ranks"],
)
def test_a_model_that_dies_is_loaded_again_although_its_children_live(tmp_path, base, runtime):
    everything = ALL.replace(")", ", in_c)")
    with served(tmp_path, model(base, "()", everything), **runtime) as server:
        with RawClient(server.port) as client:
            client.picture()
            before = children(tmp_path)
            client.say("start", 1)
            pid = client.answer(1)["data"]["reply"]
            os.kill(pid, signal.SIGKILL)
            assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
        assert before
        assert all(map(is_gone, children(tmp_path)[: len(before)]))  # they end with their model
        with until_served(server) as client:
            client.picture()
        assert server.log.count("was ended by SIGKILL") == 1
        assert all(map(lives, children(tmp_path)[2 * len(before) :]))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        assert all(map(is_gone, children(tmp_path)))
