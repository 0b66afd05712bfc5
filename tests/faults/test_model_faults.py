"""A model that hangs, blocks, fails or stops, in a real server process: its clients are told, the next one is served.

Model code here blocks in a named pipe, so that a test says when a step goes on: no fault depends on how fast a machine is.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from tests.support.fault_peers import PATIENCE, Gone, RawClient, ask, frame, health, opening, reactor_run
from tests.support.free_port import free_port

PRELUDE = '''
import threading
import time
import numpy as np
from reactor_trio import *

class Picture(Output):
    main: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    block: bool = False

def picture(level):
    return Picture(main=np.full((8, 8, 3), level, np.uint8))

def wait_for_the_test(pipe):
    with open(pipe) as gate:  # the interpreter is let go meanwhile, as in a forward pass
        gate.read()
'''

PIPELINE = PRELUDE + '''
class Model(ReactorPipeline):
    fps = 60
    state: State
    def load(self, config):
        self.pipe = "gate"
    async def inference(self):
        while True:
            level = self.state.level
            if self.state.block:
                self.state.block = False  # one step waits, also if the next begins before the disconnect is noticed
                wait_for_the_test(self.pipe)
            yield picture(level)
'''

SYNC_PIPELINE = PRELUDE + '''
class Model(ReactorPipeline):
    fps = 60
    state: State
    def load(self, config):
        self.pipe = "gate"
    def inference(self):
        while True:
            level = self.state.level
            if self.state.block:
                self.state.block = False  # one step waits, also if the next begins before the disconnect is noticed
                wait_for_the_test(self.pipe)
            yield picture(level)
'''

RUN_LOOP = PRELUDE + '''
class Model(ReactorModel):
    fps = 60
    def load(self, config):
        self.pipe = "gate"
    @connected
    def fresh(self):
        self.level, self.block = 0, False
    @event
    def set_level(self, level: int):
        self.level = level
    @event
    def set_block(self, block: bool):
        self.block = block
    async def run(self):
        while True:
            await self.connected.wait()
            level = self.level
            if self.block:
                self.block = False
                wait_for_the_test(self.pipe)
            await self.emit(picture(level))
'''

KINDS = pytest.mark.parametrize("model", [PIPELINE, SYNC_PIPELINE, RUN_LOOP], ids=["async", "sync", "run"])


@pytest.fixture
def folder(tmp_path):
    os.mkfifo(tmp_path / "gate")
    return tmp_path


def gate(folder: Path) -> BinaryIO:
    """Returns when model code waits at the pipe; closing what is returned lets it go on."""
    tries = round(PATIENCE / 0.01)
    while True:
        try:
            return open(os.open(folder / "gate", os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0)
        except OSError as error:  # ENXIO: nobody waits there yet
            tries -= 1  # not a time, which may pass while the whole machine stands still
            if error.errno != errno.ENXIO or not tries:
                raise
        select.select([], [], [], 0.01)  # a pipe tells no writer that a reader has come


def enter_step(client: RawClient, folder: Path, level: int) -> BinaryIO:
    """Returns when a forward pass of this client's session, computed with `level`, is under way and blocks."""
    client.text("reactor.welcome")
    client.say("set_level", 1, level=level)
    client.answer(1)
    client.say("set_block", 2, block=True)
    return gate(folder)


# ---- a disconnect in the middle of a forward pass ---------------------------------------------------------------------


@KINDS
def test_a_disconnect_in_mid_forward_frees_the_socket_at_once(folder, model):
    """The server's end of the connection is closed while the step still blocks."""
    waited = []
    with reactor_run(folder, model) as server:
        idle = server.descriptors()
        for leave in [polite, half_close] * 3:
            with RawClient(server.port) as client:
                step = enter_step(client, folder, level=1)
                before = time.monotonic()
                leave(client)
                client.rest()
                waited.append(time.monotonic() - before)
            step.close()
            wait_for(lambda: health(server.port)[1]["sessions"] == 0)
        with RawClient(server.port) as client:
            step = enter_step(client, folder, level=1)
            client.vanish()
            before = time.monotonic()
            # open besides: the pipe in which the step waits
            wait_for(lambda: len(server.descriptors()) <= len(idle) + 1)
            waited.append(time.monotonic() - before)
            step.close()
    print("socket freed after ms:", *(f"{1000 * seconds:.1f}" for seconds in waited))
    assert statistics.median(waited) < 0.1


def polite(client: RawClient) -> None:
    client.send(frame(8, (1000).to_bytes(2, "big")))


def half_close(client: RawClient) -> None:
    client.socket.shutdown(socket.SHUT_WR)


def wait_for(condition) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until


@KINDS
@pytest.mark.parametrize("when", ["before the old step ends", "after the old step ended"])
def test_the_next_client_never_gets_a_frame_of_the_old_session(folder, model, when):
    """A step that began under the old session delivers nothing to the next one."""
    with reactor_run(folder, model) as server:
        for _ in range(5):
            with RawClient(server.port) as old:
                step = enter_step(old, folder, level=77)
                old.vanish()
            if when == "after the old step ended":
                step.close()
            with RawClient(server.port) as new:
                if when == "before the old step ends":
                    assert new.text("reactor.queued")["data"] == {"position": 1, "total": 1, "wait": None, "heartbeat": 10}
                    step.close()
                texts, packets = [new.text("reactor.welcome")], [new.picture() for _ in range(20)]
            assert texts[0]["n"] == 1
            assert {bytes(packet.payload) for packet in packets} == {bytes(8 * 8 * 3)}
            assert packets[0].seq < 20  # on a busy machine the first may have been replaced by the next
            assert {packet.command for packet in packets} == {None}
        assert "Traceback" not in server.log


@KINDS
def test_commands_of_the_old_session_are_not_applied_in_the_next(folder, model):
    with reactor_run(folder, model) as server:
        with RawClient(server.port) as old:
            step = enter_step(old, folder, level=77)
            for number in range(3, 20):
                old.say("set_level", number, level=99)
            polite(old)
            old.rest()
        step.close()
        with RawClient(server.port) as new:
            assert new.text("reactor.welcome")["n"] == 1
            assert {bytes(new.picture().payload) for _ in range(20)} == {bytes(8 * 8 * 3)}


@KINDS
def test_a_step_that_blocks_holds_up_neither_pings_nor_other_requests(folder, model):
    with reactor_run(folder, model) as server, RawClient(server.port) as client:
        step = enter_step(client, folder, level=1)
        client.send(frame(9, b"are you there"))
        while client.next_frame() != (10, b"are you there"):
            pass
        assert health(server.port)[0] == 200
        with RawClient(server.port) as waiting:
            assert waiting.text("reactor.queued")["data"]["position"] == 1
        step.close()
        client.picture()


# ---- a model that hangs -----------------------------------------------------------------------------------------------


@KINDS
def test_a_model_hung_in_a_step_is_reported_with_its_stack(folder, model):
    """The session ends for its client, the log says where the model is, and who comes next waits and knows it."""
    with reactor_run(folder, model, stuck_after=0.2) as server:
        with RawClient(server.port) as client:
            step = enter_step(client, folder, level=1)
            polite(client)
            assert client.gone().code == 1000
        report = server.wait_log(r"still computes.*?wait_for_the_test\n[^\n]*\n")
        assert "0.2 s after the session ended" in report
        assert "model.py" in report
        assert server.log.count("still computes") == 1
        with RawClient(server.port) as first, RawClient(server.port) as second:
            assert first.text("reactor.queued")["data"]["position"] == 1
            assert second.text("reactor.queued")["data"]["position"] == 2
            first.vanish()
            assert second.text("reactor.queued")["data"]["position"] == 1
            step.close()  # it hung for long, but not for ever
            assert second.text("reactor.welcome")["n"] == 1
            assert bytes(second.picture().payload) == bytes(8 * 8 * 3)


@KINDS
@pytest.mark.parametrize("runtime", [{}, {"isolation": "process"}], ids=["inside", "process"])
def test_a_step_that_hangs_is_reported_with_its_stack_while_its_client_is_there(folder, model, runtime):
    """Once; `/health` says so and stays ok, and when the step goes on so does the session."""
    with reactor_run(folder, model, stuck_after=0.2, **runtime) as server, RawClient(server.port) as client:
        step = enter_step(client, folder, level=1)
        report = server.wait_log(r"session \w+: [^\n]* for 0.2 s in Model.*?wait_for_the_test\n[^\n]*\n")
        assert re.search(r"step \d+ has run|run\(\) has awaited nothing", report)
        assert "model.py" in report
        assert "reactor_trio" not in report
        wait_for(lambda: "reason" in health(server.port)[1])
        status, body = health(server.port)
        assert (status, body["status"]) == (200, "ok")
        assert "the log has its stack" in body["reason"]
        step.close()
        assert client.answer(2)["type"] == "reactor.ack"
        client.picture()
        wait_for(lambda: "reason" not in health(server.port)[1])
        assert server.log.count("whose client is still there") == 1


# ---- a model that fails -----------------------------------------------------------------------------------------------

FAILS_IN_STEP = PRELUDE + '''
class Model(ReactorPipeline):
    fps = 60
    state: State
    def inference(self):
        while True:
            if self.state.level == 13:
                raise ValueError("the secret of the model")
            yield picture(self.state.level)
'''


@pytest.mark.parametrize("debug", [False, True])
def test_an_exception_in_a_step_ends_its_session_alone(folder, debug):
    arguments = ["--port", "0", *(["--debug"] if debug else [])]
    with reactor_run(folder, FAILS_IN_STEP, *arguments) as server:
        for turn in range(1, 4):
            with RawClient(server.port) as client:
                session = client.text("reactor.welcome")["data"]["session_id"]
                client.picture()
                client.say("set_level", 1, level=13)
                bye = client.text("reactor.bye")
                assert client.gone().code == 1011
            assert bye["data"]["reason"] == "model_error"
            assert ("the secret of the model" in json.dumps(bye)) is debug
            server.wait_log(f"session {session} ended")
            assert server.log.count("ValueError: the secret of the model") == turn
        with RawClient(server.port) as client:
            assert bytes(client.picture().payload) == bytes(8 * 8 * 3)
        assert health(server.port)[0] == 200


LOAD_FAILS = PRELUDE + '''
class Model(ReactorPipeline):
    state: State
    def load(self, config):
        wait_for_the_test("gate")
        raise OSError("no weights here")
    def inference(self):
        yield
'''


def test_a_load_that_raises_is_exit_1_and_health_never_says_ok(folder):
    port = free_port()
    with reactor_run(folder, LOAD_FAILS, "--port", str(port), ready=False) as server, watching_health(port) as seen:
        wait_for(lambda: seen)
        status, body = health(port)
        assert (status, body["status"]) == (503, "loading")
        refused, headers, _ = ask(port, opening())
        assert (refused, headers["retry-after"]) == (503, "1")
        gate(folder).close()
        assert server.process.wait(PATIENCE) == 1
        (line,) = server.log.splitlines()
        assert line.startswith("reactor: ")
        assert "OSError: no weights here" in line
    assert set(seen) == {503}


RUN_ENDS = PRELUDE + '''
class Model(ReactorModel):
    fps = 60
    async def run(self):
        await self.connected.wait()
        await self.emit(picture(1))
        wait_for_the_test("gate")
        %s
'''
RUN_ENDS_AT_ONCE = PRELUDE + '''
class Model(ReactorModel):
    fps = 60
    def load(self, config):
        wait_for_the_test("gate")
    async def run(self):
        %s
'''


@pytest.mark.parametrize("end", ["return", "raise OSError('the device is lost')"], ids=["returns", "raises"])
def test_a_run_that_ends_ends_the_server_with_exit_1_and_health_never_says_ok_again(folder, end):
    with reactor_run(folder, RUN_ENDS % end) as server, RawClient(server.port) as client:
        client.picture()
        assert health(server.port)[0] == 200
        gate(folder).close()
        wait_for(lambda: health(server.port)[0] == 503)
        statuses = []  # while the server waits for the client, which does not answer the goodbye, to take it
        try:
            while True:
                statuses.append(health(server.port)[0])
        except (ConnectionError, Gone):
            pass
        assert set(statuses) == {503}
        bye = client.text("reactor.bye")
        assert bye["data"]["reason"] == "model_error"
        assert client.gone().code == 1011
        assert server.process.wait(PATIENCE) == 1
        assert server.log.count("reactor: faulty: run() ") == 1


@pytest.mark.parametrize("end", ["return", "raise OSError('no device')"], ids=["returns", "raises"])
def test_a_run_that_ends_at_once_is_exit_1_and_health_does_not_recover(folder, end):
    """Between the end of load() and that of run() the model is there; after it, never again."""
    port = free_port()
    with reactor_run(folder, RUN_ENDS_AT_ONCE % end, "--port", str(port), ready=False) as server:
        with watching_health(port) as seen:
            wait_for(lambda: seen)
            gate(folder).close()
            assert server.process.wait(PATIENCE) == 1
        assert server.log.count("reactor: faulty: run() ") == 1
    changes = [status for status, before in zip(seen, [None, *seen], strict=False) if status != before]
    assert changes in ([503], [503, 200], [503, 200, 503])


class watching_health:
    """Asks for /health without a pause while the block lasts; a list of the statuses that it got."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._seen: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._seen.append(health(self._port)[0])
            except (OSError, Gone):
                self._over.wait(0.001)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self._seen

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
