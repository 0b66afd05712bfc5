"""Models that fail in every way: a session's fault ends that session, the model's the process, with a code that says so.

Besides what `test_model_faults.py` has: steps that raise or hang, `load` that raises, `run()` that ends.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time

import pytest
import trio
from test_model_faults import gate
from tests.support.fault_checks import MODEL, Witness, after, entries, wait_for, wait_for_rest
from tests.support.fault_peers import CLOSE, PATIENCE, RawClient, ask, frame, health, reactor_run
from tests.support.free_port import free_port

from reactor_trio.concurrency.bounded_prints import LINES
from reactor_trio.interface import ReactorModel
from reactor_trio.testing import open_server

#: The model of `fault_checks`, which does as it is told in its steps, hooks, handlers and at its end.
MISBEHAVED = MODEL + '''
import ctypes
import logging
import os
import sys
from reactor_trio.concurrency import SessionOver

class Ends(BaseException):
    """Neither an Exception nor one that Python knows."""

def run_amok(how):
    match how:
        case "raise":
            raise ValueError("asked to")
        case "_exit":
            os._exit(3)
        case "sys.exit":
            sys.exit(5)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "BaseException":
            raise Ends("asked to")
        case "over":
            raise SessionOver
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()

class Amok(State):
    step: str = ""
    close: str = ""
    gone: str = ""

class Model(Model):
    state: Amok
    come = ""

    def inference(self):
        self.entered += 1
        try:
            while True:
                run_amok(self.state.step)
                yield Picture(main=np.full((8, 8, 3), self.state.level, np.uint8))
        except GeneratorExit:
            if self.state.close == "ignore":
                yield Picture(main=np.zeros((8, 8, 3), np.uint8))
            raise
        finally:
            self.left += 1
            if self.state.close == "raise":
                raise ValueError("asked to, in finally")

    @connected
    def on_come(self):
        how, type(self).come = self.come, ""
        run_amok(how)

    @disconnected
    def on_gone(self):
        run_amok(self.state.gone)

    @event
    def next_comes_to(self, how: str):
        type(self).come = how

    @event
    def do(self, how: str):
        run_amok(how)

    @event
    def wait_at_the_gate(self):
        with open("gate") as gate:
            gate.read()

    @event
    def talk(self, lines: int):
        for number in range(lines):
            print("a model may print", number)
            logging.getLogger("author").info("a model may log %d", number)
            sys.stderr.write("and write\\n")

    @event
    def leak(self, size: int):
        self.leaked = b"x" * size
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("amok")
    os.mkfifo(folder / "gate")
    with reactor_run(folder, MISBEHAVED, watchdog=3.0) as server:
        drain_stdout(server)
        wait_for_rest(server)
        yield server


def drain_stdout(server) -> None:
    """Nobody else reads what a model prints."""
    threading.Thread(target=lambda: [None for _ in server.process.stdout], daemon=True).start()


# ---- faults of one session --------------------------------------------------------------------------------------------


def test_a_generator_that_ignores_its_end_is_logged_and_abandoned(server):
    with after(server, r"closing inference\(\) raised", tracebacks=1), RawClient(server.port) as client:
        client.picture()
        client.say("set_close", 1, close="ignore")
        client.answer(1)
        client.vanish()


def test_an_exception_in_finally_is_logged_once(server):
    before = server.log.count("ValueError: asked to, in finally")  # another test of this server may have had one
    with after(server, r"closing inference\(\) raised", tracebacks=1), RawClient(server.port) as client:
        client.picture()
        client.say("set_close", 1, close="raise")
        client.answer(1)
        client.vanish()
    assert server.log.count("ValueError: asked to, in finally") == before + 1


def test_an_exception_in_a_step_and_in_its_finally(server):
    """Python chains them: one entry, of the session that it ended."""
    with after(server, r"session \w+: the model raised", tracebacks=1), RawClient(server.port) as client:
        client.picture()
        client.say("set_close", 1, close="raise")
        client.answer(1)
        client.say("set_step", step="raise")
        assert client.text("reactor.bye")["data"]["reason"] == "model_error"


def test_an_exception_in_connected_ends_its_session_as_one_in_a_step_does(server):
    with after(server, r"session \w+: @connected raised", tracebacks=1):
        with RawClient(server.port) as client:
            client.picture()
            client.say("next_comes_to", 1, how="raise")
            client.answer(1)
        with RawClient(server.port) as client:
            assert client.text("reactor.bye")["data"]["reason"] == "model_error"
            assert client.gone().code == 1011


def test_an_exception_in_disconnected_is_logged_and_the_next_is_served(server):
    with after(server, r"session \w+: @disconnected raised", tracebacks=1), RawClient(server.port) as client:
        client.picture()
        client.say("set_gone", 1, gone="raise")
        client.answer(1)
        client.vanish()


def test_check_cancelled_in_a_hook_leaves_the_hook(server):
    """`@disconnected` runs when the session is over, so what it calls may say so."""
    with after(server):
        with RawClient(server.port) as client:
            client.picture()
            client.say("next_comes_to", 1, how="over")
            client.say("set_gone", 2, gone="over")
            client.answer(2)
        with RawClient(server.port) as client:
            client.picture()


@pytest.mark.parametrize("how", ["raise", "BaseException"])
def test_an_exception_in_a_handler_is_answered(server, how):
    with after(server, r"session \w+: the handler of do raised", tracebacks=1), Witness(server) as witness:
        witness.client.say("do", 77, how=how)
        wait_for(lambda: 77 in witness._answers, "the answer")
        assert witness._answers[77]["data"]["code"] == "internal_error"


def test_a_handler_that_blocks_holds_up_its_session_alone(server):
    """For longer than the watchdog's limit: it watches the I/O loop, which goes on."""
    with after(server), RawClient(server.port) as client:
        client.picture()
        client.say("wait_at_the_gate", 1)
        waits = gate(server.log_path.parent)
        began = time.monotonic()
        while time.monotonic() - began < 4.0:
            assert health(server.port)[0] == 200
            time.sleep(0.05)
        with RawClient(server.port) as waiting:
            assert waiting.text("reactor.queued")["data"]["position"] == 1
        waits.close()
        assert client.answer(1)["type"] == "reactor.ack"
        client.picture()


def test_a_model_that_prints_and_logs_a_lot_is_slow_and_no_more(server):
    with Witness(server) as witness:
        witness.command("talk", lines=5000)
    for number in range(LINES):  # `test_floods.py` counts the rest
        assert f"a model may log {number} " in server.log
    assert health(server.port)[0] == 200


def test_a_model_that_leaks_is_seen_in_the_metrics(server):
    """Nothing can take it back; who watches /metrics sees it grow."""
    with RawClient(server.port) as client:
        client.picture()
        before = resident(server.port)
        client.say("leak", 1, size=64 << 20)
        client.answer(1)
        assert resident(server.port) - before > 48 << 20


def resident(port: int) -> float:
    _, _, body = ask(port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    return float(re.search(rb"^reactor_process_resident_memory_bytes (\S+)", body, re.MULTILINE)[1])


# ---- faults that end the process --------------------------------------------------------------------------------------

#: how the model ends, where: the exit code, and what the log says
ENDINGS = {
    "_exit": (3, None),
    "sys.exit": (1, r"reactor: faulty: .*SystemExit: 5"),
    "KeyboardInterrupt": (1, r"reactor: faulty: .*KeyboardInterrupt"),
    "segfault": (-signal.SIGSEGV, r"Fatal Python error: Segmentation fault"),
    "abort": (-signal.SIGABRT, r"Fatal Python error: Aborted"),
}


@pytest.mark.parametrize(("how", "where"), [
    ("_exit", "step"), ("sys.exit", "step"), ("sys.exit", "gone"), ("segfault", "step"),
    *(pytest.param(*case, marks=pytest.mark.soak) for case in [
        ("_exit", "do"), ("sys.exit", "do"), ("sys.exit", "next_comes_to"), ("KeyboardInterrupt", "step"),
        ("abort", "do"),
    ]),
])  # fmt: skip
def test_a_model_that_ends_the_process(tmp_path, how, where):
    """Its clients see a closed socket at once; the code tells whoever started it what happened."""
    code, told = ENDINGS[how]
    field = where in ("step", "gone")
    limits = {"silence": 2 * PATIENCE}
    with reactor_run(tmp_path, MISBEHAVED, drain_grace=0.3, limits=limits) as server, RawClient(server.port) as client:
        client.picture()
        with RawClient(server.port) as waiting:
            waiting.text("reactor.queued")
            client.say(f"set_{where}" if field else where, 1, **{where if field else "how": how})
            if where in ("next_comes_to", "gone"):  # in a hook
                client.answer(1)
                client.send(frame(CLOSE, b"\x03\xe8"))
            end = client.gone()
            assert end.code == (None if code != 1 else 1011 if where in ("step", "do") else 1000)
            # The other client neither leaves nor says a word: only `drain_grace` ends the wait for it.
            assert server.process.wait(PATIENCE) == code, server.log
            waiting.gone()
        if told is not None:
            assert len(re.findall(told, server.log)) == 1, server.log
        if code == 1:  # and the author's traceback once
            assert [entry.traceback for entry in entries(server.log) if entry.level == "ERROR"] == [True]


LOADS = MODEL + '''
import os, sys
class Model(Model):
    def load(self, config):
        with open("gate") as gate:
            gate.read()
        HOW
'''


@pytest.mark.parametrize(("how", "code"), [
    ("sys.exit(5)", 1),
    pytest.param("os._exit(4)", 4, marks=pytest.mark.soak),
    pytest.param("raise KeyboardInterrupt", 1, marks=pytest.mark.soak),
])  # fmt: skip
def test_a_load_that_ends_the_process(tmp_path, how, code):
    os.mkfifo(tmp_path / "gate")
    with reactor_run(tmp_path, LOADS.replace("HOW", how), "--port", "0", ready=False) as server:
        gate(tmp_path).close()
        assert server.process.wait(PATIENCE) == code, server.log
        if code == 1:
            (line,) = server.log.splitlines()
            assert line.startswith("reactor: faulty: load() raised"), line


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_signal_in_the_middle_of_a_long_load(tmp_path, signum):
    """/health says that it loads for as long as that takes; a load cannot be interrupted, so the process just goes."""
    os.mkfifo(tmp_path / "gate")
    port = free_port()
    with reactor_run(tmp_path, LOADS.replace("HOW", "pass"), "--port", str(port), ready=False, watchdog=3.0) as server:
        loads = gate(tmp_path)
        began = time.monotonic()
        while time.monotonic() - began < 4.0:  # longer than the watchdog's limit
            assert (health(port)[0], health(port)[1]["status"]) == (503, "loading")
            time.sleep(0.1)
        server.process.send_signal(signum)
        assert server.process.wait(PATIENCE) == 0
        assert server.log == ""
        loads.close()


ENDS = """
import numpy as np
from reactor_trio.interface import Output, ReactorModel, Video

class Picture(Output):
    main_video: Video

class Model(ReactorModel):
    async def run(self):
        await self.connected.wait()
        await self.emit(Picture(main_video=np.zeros((8, 8, 3), np.uint8)))
        raise OSError("the device is lost")
"""


def test_a_signal_that_follows_the_end_of_run_hides_nothing(tmp_path):
    """The server waits for its client to go when the signal comes; the exit code and the line say why it ended."""
    with reactor_run(tmp_path, ENDS, "--port", "0", drain_grace=PATIENCE) as server, RawClient(server.port) as client:
        assert client.text("reactor.bye")["data"]["reason"] == "model_error"
        assert health(server.port)[0] == 503
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "draining" in server.process.stdout.readline())
        client.socket.close()
        assert server.process.wait(PATIENCE) == 1, server.log
        line = server.log.splitlines()[-1]
        where = "(model.py:12) (docs/reference/errors.md#model-failed)"
        assert line == f"reactor: faulty: run() raised OSError: the device is lost {where}"


class Cleaner(ReactorModel):
    async def run(self):
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cannot put the weights away")


async def test_a_run_that_raises_while_the_server_ends_is_logged(autojump_clock, caplog):
    async with open_server(Cleaner):
        await trio.sleep(1)
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.getMessage() == "run() raised ValueError: cannot put the weights away while the server ended"
    assert line.exc_info[1].args == ("cannot put the weights away",)
