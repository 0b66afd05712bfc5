"""`reactor run --reload` with the real server: one port over good code, broken code and good code again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
import websockets
from tests.support.cli_doubles import SOURCE, reactor
from websockets.sync.client import connect

FAILS = """

def inference(self):
    raise ValueError("my mistake")
    yield


MyModel.inference = inference
"""


@pytest.fixture
def project(tmp_path):
    assert reactor("init", "demo", cwd=tmp_path).returncode == 0
    return tmp_path / "demo"


@contextmanager
def reloading(project):
    """Run the supervisor during the block. Yields it and its output, stderr included."""
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", "run", "--path", str(project), "--port", "0", "--reload"],
        env=os.environ | {"PYTHONPATH": SOURCE}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=120)


def until(process, words):
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"never came: {words!r} in {seen}")


def health(url):
    try:
        with urllib.request.urlopen(f"{url}health", timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def hello(url):
    with connect(f"{url.replace('http', 'ws')}ws?video=none", open_timeout=120) as socket:
        assert json.loads(socket.recv(timeout=120))["type"] == "reactor.welcome"
        yield socket


def end_of(socket):
    """Return the last text message and the close code."""
    last = None
    try:
        while True:
            last = socket.recv(timeout=120)
    except websockets.ConnectionClosed as closed:
        return json.loads(last), closed.rcvd.code


def test_clients_return_on_the_same_port_and_broken_code_is_reported(project):
    pipeline = project / "pipeline.py"
    good = pipeline.read_text()
    with reloading(project) as process:
        url = until(process, " is ready: ")[-1].split()[-1]
        with hello(url) as socket:
            pipeline.write_text(good + FAILS)
            bye, code = end_of(socket)
            assert (bye["type"], bye["data"]["reason"], code) == ("reactor.bye", "model_restarting", 1011)
        # No wait and no second try: between two servers a new connection waits in the sockets' backlog.
        status, body = health(url)
        assert (status, body["phase"]) in ((503, "loading"), (200, "ready"))
        assert until(process, " is ready: ")[-1].split()[-1] == url

        with hello(url) as socket:  # who reloads the model sees its exceptions
            assert end_of(socket)[0]["data"] == {"reason": "model_error", "message": "ValueError: my mistake"}
        pipeline.write_text(good + "\ndef broken(:\n")
        told = until(process, "waiting for a change in ")
        (line,) = [line for line in told if line.startswith("reactor: ")]
        assert "importing pipeline raised SyntaxError: " in line
        assert f"(pipeline.py:{good.count(chr(10)) + 2})" in line
        assert sum("Traceback" in line for line in told) == 1, "that of the session before"
        status, body = health(url)
        assert (status, body["status"], body["reason"]) == (503, "failed", line.removeprefix("reactor: ").strip())
        with urllib.request.urlopen(url, timeout=120) as page:
            assert b"<html" in page.read()
        with pytest.raises(websockets.InvalidStatus) as refused:
            with hello(url):
                pass
        assert (refused.value.response.status_code, refused.value.response.headers["Retry-After"]) == (503, "1")

        load = "def load(self, config: dict[str, Any]) -> None:"
        pipeline.write_text(good.replace(load, f"{load}\n        raise OSError('no weights')"))
        told = until(process, "waiting for a change in ")
        assert any("load() raised OSError: no weights" in line for line in told if line.startswith("reactor: ")), told
        assert "no weights" in health(url)[1]["reason"]

        (project / "reactor.yaml").write_text("modle: pipeline:Demo\n")
        told = until(process, "waiting for a change in ")
        assert any("reactor.yaml: modle: unknown key; did you mean model?" in line for line in told), told
        assert "did you mean model?" in health(url)[1]["reason"]

        (project / "reactor.yaml").write_text(
            "model: pipeline:MyModel\nname: demo\nconfig: config.yml\nruntime: {drain_notice: 600}\n"  # not waited for
        )
        until(process, "waiting for a change in ")
        pipeline.write_text(good)
        assert until(process, " is ready: ")[-1].split()[-1] == url
        with hello(url) as socket:
            process.send_signal(signal.SIGINT)
            bye, code = end_of(socket)
            assert (bye["data"]["reason"], code) == ("draining", 1001)
        assert process.wait(120) == 0
