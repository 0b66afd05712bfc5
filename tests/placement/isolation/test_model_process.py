"""`runtime.isolation: process` with real processes: what crosses, and what is left when one of them dies."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest
from tests.support.fault_peers import PATIENCE, RawClient, reactor_run
from tests.support.isolated_models import MODEL
from tests.support.model_processes import is_gone, nothing_more_is_open, until_served, without_frames

from reactor_trio import ReactorPipeline
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.server.serve import serve


@pytest.fixture
def served(tmp_path):
    with reactor_run(tmp_path, MODEL, isolation="process", step_timeout=1.5) as server:
        yield server
        print(server.log)  # shown if the test fails


def process_of(client):
    client.say("process", 1)
    return client.answer(1)["data"]["reply"]


def test_frames_replies_messages_and_log_lines_cross(served):
    with RawClient(served.port) as client:
        welcome = client.text("reactor.welcome")
        assert process_of(client)["pid"] != served.process.pid
        client.say("set_level", 2, level=9)
        assert client.answer(2)["type"] == "reactor.ack"
        while client.picture().command != 2:
            pass
        pictures = [client.picture() for _ in range(30)]
        seqs = [packet.seq for packet in pictures]
        assert seqs == sorted(set(seqs))  # on a busy machine one may have been dropped
        for packet in pictures:
            shown = np.frombuffer(packet.payload, np.uint8).reshape(240, 320, 3)
            assert (shown[0, 0] == packet.step % 256).all()
            assert (shown[1:] == 9).all()
        client.say("note", 3, text="a\u00e9")
        assert client.text("note")["data"] == {"text": "a\u00e9"}
        client.say("raises", 4)
        assert client.answer(4)["data"]["code"] == "internal_error"
        client.say("on_asyncio", 5)
        assert client.answer(5)["data"]["reply"] == ["asyncio", "trio"]
        client.say("logs", 6)
        assert client.answer(6)["data"]["reply"] == [False, True]  # as in the server's process
        sid = welcome["data"]["session_id"]
    served.wait_log(f"about aé.*session={sid}")
    served.wait_log("handler of raises raised.*raise ValueError")


@pytest.mark.parametrize(
    ("how", "what"),
    [("segfault", "Fatal Python error: Segmentation fault"), ("break_loop", "KeyError: 'raised in the loop'")],
)
def test_the_traceback_of_a_process_that_dies_is_logged(tmp_path, how, what):
    """Also under `--json-logs`, where each line is JSON."""
    with reactor_run(tmp_path, MODEL, "--port", "0", "--json-logs", isolation="process") as served:
        with RawClient(served.port) as client:
            client.picture()
            client.say(how)
            assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
        served.wait_log("is loaded again")
        entries = [json.loads(line) for line in served.log.splitlines()]
    told = [entry for entry in entries if what in entry["message"]]
    assert len(told) == 1, told
    assert told[0]["level"] == "ERROR"
    assert told[0]["message"].startswith("the model's process died of this:\n")
    assert "model.py" in told[0]["message"]


def test_a_crash_is_told_and_mended_and_nothing_is_left(served):
    with RawClient(served.port) as client:
        first = process_of(client)
        descriptors, threads = without_frames(served), served.threads()
    for kill in ("segfault", "exit", "scribble", "kill"):
        with until_served(served) as client:
            now = process_of(client)
            client.picture()
            if kill == "kill":
                os.kill(now["pid"], signal.SIGKILL)
            else:
                client.say(kill)
            bye = client.text("reactor.bye")
            assert bye["data"]["reason"] == "model_restarting"
            assert client.gone().code == 1011
            assert is_gone(now["pid"])
    with until_served(served) as client:
        last = process_of(client)
        assert last["descriptors"] == first["descriptors"]
        assert last["threads"] == first["threads"]
        assert nothing_more_is_open(served, descriptors)
        assert served.threads() <= threads + 2  # Trio keeps worker threads for a while
    assert served.log.count("the model is gone: its process was ended by SIGSEGV") == 1
    assert served.log.count("the model is gone: its process ended with exit code 7") == 1
    assert served.log.count("the model is gone: its process was ended by SIGKILL") == 1
    assert served.log.count("the other process of the model has sent what is no message") == 1
    assert served.log.count("the model is gone") == 4


def test_a_model_that_holds_the_interpreter_is_killed_but_not_for_its_first_step(tmp_path):
    compiles = MODEL.replace("number = 0\n", "number = 0\n        ctypes.PyDLL(None).sleep(2)\n", 1)
    with reactor_run(tmp_path, compiles, isolation="process", step_timeout=1.5) as served:
        with RawClient(served.port) as client:
            client.picture()
            assert "is gone" not in served.log
            client.say("hang")
            assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
        with until_served(served) as client:
            client.picture()
        assert served.log.count("computed for more than 1.5 s in one step (runtime.step_timeout)") == 1
        assert served.log.count("for a new shape") == 1


def test_the_model_goes_with_its_server(tmp_path):
    """A terminated server tells it. Of a killed one it learns by the closed link, or the kernel kills it: which comes first
    is the kernel's matter, and a model that holds the interpreter is ended by the kernel alone."""
    last = 'import atexit, sys; atexit.register(sys.stderr.write, "the last line\\n")'
    model = MODEL.replace("self.buffer = np", f"{last}\n        self.buffer = np", 1)
    model = model.replace("    def hang(self):", "    def hang(self):\n        os.write(2, b'it hangs\\n')", 1)
    for end, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with reactor_run(tmp_path, model, isolation="process") as server:
            with RawClient(server.port) as client:
                pid = process_of(client)["pid"]
                if end == signal.SIGKILL:
                    client.say("hang")
                    server.wait_log("it hangs")
                os.kill(server.process.pid, end)
                if end != signal.SIGKILL:
                    assert client.text("reactor.bye")["data"]["reason"] == "draining"
            assert server.process.wait(PATIENCE) == code
            assert is_gone(pid)
            assert server.log.count("the last line") == (end == signal.SIGTERM)


@pytest.mark.parametrize(
    ("load", "said"),
    [("raise OSError('no weights here')", "OSError: no weights here"), ("os._exit(3)", "ended with exit code 3")],
)
def test_a_model_that_cannot_be_loaded_is_exit_1_with_one_line(tmp_path, load, said):
    model = MODEL.replace("self.buffer = np.zeros((240, 320, 3), np.uint8)", load)
    with reactor_run(tmp_path, model, isolation="process", ready=False) as server:
        assert server.process.wait(PATIENCE) == 1
        (line,) = server.log.splitlines()
        assert line.startswith("reactor: ")
        assert said in line


RUN_ENDS = MODEL[: MODEL.index("class Model(")] + '''
class Model(ReactorModel):
    async def run(self):
        await self.connected.wait()
        await self.emit(np.zeros((8, 8, 3), np.uint8))
        raise OSError("the device is lost")
'''


@pytest.mark.soak  # CI has the same in virtual time
def test_a_run_that_ends_is_exit_1_in_this_placement_too(tmp_path):
    with reactor_run(tmp_path, RUN_ENDS, isolation="process") as server, RawClient(server.port) as client:
        assert client.text("reactor.bye")["data"]["reason"] == "model_error"
        assert server.process.wait(PATIENCE) == 1
        assert server.log.count("run() raised OSError: the device is lost") == 1


async def test_files_and_input_frames_cross(served):
    async with connect(f"ws://127.0.0.1:{served.port}/ws", video=["raw"]) as client:
        file = await client.upload(b"x" * 5_000_000)
        await client.command("set_file", file=file)
        assert await client.command("file_size") == 5_000_000
        await client.push_video("webcam", np.full((240, 320, 3), 77, np.uint8))
        async for frame in client.frames("main_video"):
            if abs(int(frame.data[100, 100, 0]) - 77) < 4:
                break



def test_a_file_that_was_edited_is_not_loaded_again_until_the_change_is_undone(tmp_path):
    with reactor_run(tmp_path, MODEL, isolation="process") as served:
        with RawClient(served.port) as client:
            client.picture()
            (tmp_path / "model.py").write_text(MODEL.replace("def note(self", "def noted(self"))
            client.say("exit")
            assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
        served.wait_log("declares other tracks, commands or messages than when the server started")
        (tmp_path / "model.py").write_text(MODEL)
        with until_served(served) as client:
            client.say("note", 3, text="here")
            assert client.text("note")["data"] == {"text": "here"}


async def test_a_class_that_cannot_be_imported_is_refused():
    class Hidden(ReactorPipeline):
        def inference(self):
            yield None

    with pytest.raises(Exception, match="put the class into a module"):
        await serve(Hidden, port=0, settings=Settings(isolation="process"))
