"""The command line and the real server together, as processes over real sockets."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from tests.support.cli_doubles import ON_A_TERMINAL, SKY, SOURCE, reactor
from tests.support.forked_command import ForkedCommand


@pytest.fixture
def project(tmp_path):
    assert reactor("init", "demo", cwd=tmp_path).returncode == 0
    return tmp_path / "demo"


@contextmanager
def running(project, *arguments, start=ForkedCommand):
    """Run `reactor run --port 0` as a process. Yields it and the URL that it printed."""
    with started("run", "--path", project, "--port", "0", *arguments, start=start) as process:
        url = next((line.split()[-1] for line in process.stdout if " is ready: " in line), None)
        assert url is not None, process.stderr.read()
        get(f"{url}health")
        yield process, url


@contextmanager
def started(*arguments, start=ForkedCommand):
    """Run the command line as a process, which is killed at the end of the block."""
    with start(arguments) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def new_interpreter(arguments):
    """Run the command line as a child, which inherits what a child does."""
    return subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", *map(str, arguments)], env=os.environ | {"PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.load(answer)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_init_run_look_and_stop(project, signum):
    with running(project) as (process, url):
        assert next(process.stdout).startswith("encoders: ")
        health = get(f"{url}health")
        assert health["status"] == "ok"
        assert health["encoders"]["jpeg"] == "simplejpeg"
        process.send_signal(signum)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "draining demo; a second signal ends at once\n", "")


def test_a_closed_terminal_drains(project):
    """The kernel sends SIGHUP, and the server's output has no reader any more."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", "run", "--path", project, "--port", "0"],
        env=os.environ | {"PYTHONPATH": SOURCE}, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        try:
            os.close(theirs)
            with open(ours, "rb", closefd=False) as lines:
                url = next(line for line in lines if b" is ready: " in line).split()[-1].decode()
            assert get(f"{url}health")["status"] == "ok"
            with started("client", url) as client:
                first = client.stdout.readline()
                assert "demo as control" in first, client.stderr.read()
                os.close(ours)
                assert process.wait(120) == 0
                out, _ = client.communicate(timeout=120)
                assert out.splitlines()[-1] == "the session ended: draining"
        finally:
            process.kill()


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_what_load_prints_has_a_line_of_its_own_on_a_terminal(tmp_path, isolation):
    (tmp_path / "model.py").write_text(SKY)
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", "run", "model.py", "--port", "0", "--isolation", isolation],
        env=ON_A_TERMINAL, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            os.close(theirs)
            with open(ours, encoding="utf-8", newline="\n") as lines:
                shown = [shown_in_a_row(line) for line in itertools.takewhile(lambda line: " is ready: " not in line, lines)]
        finally:
            process.kill()
    assert "loaded with {}" in shown


def shown_in_a_row(line):
    """What a terminal shows when the text of a line has been written to an empty row."""
    row = ""
    for part in line.rstrip("\r\n").split("\r"):
        text = part.removeprefix("\x1b[K")
        row = text if text != part else text + row[len(text) :]
    return row.rstrip()


def test_a_server_started_with_hangups_ignored_continues(project):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does; a child inherits it
    try:
        with running(project, start=new_interpreter) as (process, url):
            process.send_signal(signal.SIGHUP)
            assert get(f"{url}health")["status"] == "ok"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            assert out.count("draining") == 1
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_schema_command_prints_what_the_server_answers(project):
    with running(project) as (process, url):
        assert json.loads(reactor("schema", "--path", project).stdout) == get(f"{url}schema")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def test_a_drain_ends_the_session_of_a_connected_client(project):
    with running(project) as (process, url):
        with started("client", url, "--send", "set_brightness=0.5") as client:
            assert "demo as control" in client.stdout.readline()
            assert client.stdout.readline().startswith("set_brightness: ")
            assert client.stdout.readline().startswith("main_video: ")
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            out, err = client.communicate(timeout=120)
            assert (client.returncode, out.splitlines()[-1], err) == (0, "the session ended: draining", "")


def test_a_drain_with_notice_lets_the_session_continue_and_says_so(project):
    manifest = project / "reactor.yaml"
    manifest.write_text(manifest.read_text() + "\nruntime: {drain_notice: 600}\n")
    with running(project) as (process, url), started("client", url, "--send", "set_brightness=0.5") as client:
        assert "demo as control" in client.stdout.readline()
        assert client.stdout.readline().startswith("set_brightness: ")
        process.send_signal(signal.SIGTERM)
        assert next(line for line in client.stdout if line.startswith("ending")) == "ending (draining) in 600 s\n"
        with pytest.raises(urllib.error.HTTPError) as answer:
            get(f"{url}health")
        assert answer.value.code == 503
        assert json.load(answer.value)["reason"].startswith("sessions may go on for ")
        assert client.stdout.readline().startswith("main_video: "), "it goes on"
        client.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, "when the last session is over it waits no longer"
        assert out.splitlines()[-1] == "draining demo, 1 session may go on for 600 s; a second signal ends at once"


def test_a_command_that_the_model_refuses_is_exit_code_2_with_the_path(project):
    with running(project) as (_, url):
        done = reactor("client", url, "--send", "set_brightness=3")
        assert done.returncode == 2
        assert done.stderr == "reactor: --send: Expected float <= 2.0 - at $.brightness\n"


def test_a_client_leaves_after_its_seconds(project):
    with running(project) as (_, url):
        done = reactor("client", url, "--seconds", "0.01")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_second_client_prints_why_it_waits_and_leaves_in_time(project):
    with running(project) as (_, url), started("client", url) as first:
        assert "demo as control" in first.stdout.readline()
        done = reactor("client", url, "--seconds", "1")
        taken = "someone else has the session; see max_sessions"
        assert (done.returncode, done.stdout) == (1, f"queued: 1 of 1: {taken}\n")
        assert done.stderr == f"reactor: {url}: no session within 1 s: {taken}\n"


def test_a_load_that_raises_is_exit_code_1_and_one_line(project):
    source = (project / "pipeline.py").read_text()
    (project / "pipeline.py").write_text(source.replace('self.width = config.get("width", 640)', "1 / 0"))
    done = reactor("run", "--path", project, "--port", "0")
    assert (done.returncode, done.stdout.partition("\n")[2]) == (1, "loading demo ...\n")
    assert "ZeroDivisionError: division by zero (pipeline.py:27)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("reactor: ")


def test_a_class_that_cannot_be_served_is_one_error_before_load(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: brief\n")
    (tmp_path / "pipeline.py").write_text(
        "from reactor_trio.interface import ReactorPipeline\n\n"
        "class MyModel(ReactorPipeline):\n    def inference(self):\n        return\n"
    )
    done = reactor("run", "--path", tmp_path, "--port", "0")
    told = f"yield each one, as in `yield frame` (at {tmp_path / 'pipeline.py'}:4)\n"
    assert (done.returncode, done.stderr) == (
        1, f"reactor: brief: there is no `yield` in MyModel.inference, so it makes no frames: {told}"
    )  # fmt: skip


def test_a_run_that_returns_is_exit_code_1(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: brief\n")
    (tmp_path / "pipeline.py").write_text(
        "from reactor_trio.interface import ReactorModel\n\n"
        "class MyModel(ReactorModel):\n    async def run(self):\n        return\n"
    )
    done = reactor("run", "--path", tmp_path, "--port", "0")
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("reactor: "))
    assert "run() returned" in line


def test_a_port_in_use_is_exit_code_2_and_one_line(project):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = reactor("run", "--path", project, "--port", port)
    assert done.returncode == 2
    assert done.stderr.startswith(f"reactor: cannot listen on 127.0.0.1:{port}: Address already in use; ")
    assert done.stderr.count("\n") == 1


def test_json_logs_are_json_lines_with_the_models_name(project):
    source = (project / "pipeline.py").read_text()
    noise = "import logging, warnings; logging.getLogger('mine').info('hello'); warnings.warn('old', stacklevel=1)\n"
    (project / "pipeline.py").write_text(noise + source)
    with running(project, "--json-logs") as (process, _):
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["model"] for line in lines} == {"demo"}
    assert ("mine", "hello") in [(line["logger"], line["message"]) for line in lines]
    assert any("UserWarning: old" in line["message"] for line in lines)
