"""Standard streams that are closed or full, or whose reader has left. A server goes on; what makes only output ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.support.cli_doubles import SKY, SOURCE, without_links
from tests.support.free_port import free_port

from reactor_trio.server import lock_watcher
from reactor_trio.standard_streams import lost, optional_output

TALKS = f"""{SKY}
import sys

class Talking(Sky):
    def load(self, config):
        print("x" * 20_000)
        print("loaded", flush=True)
        print("loaded", file=sys.stderr, flush=True)

    def inference(self):
        for number, picture in enumerate(super().inference()):
            print("step", number, flush=True)
            print("step", number, file=sys.stderr, flush=True)
            yield picture

if __name__ == "__main__":
    run(Talking, port=int(sys.argv[1]))
"""
NO_STREAMS = {"closed": "<&- >&- 2>&-", "full": ">/dev/full 2>/dev/full"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(TALKS)
    (tmp_path / "reactor.yaml").write_text(
        "model: model:Talking\nname: sky\nruntime:\n  isolation: process\n"
        "  auth: {ticket_keys: [0123456789abcdef0123456789abcdef], token: 0123456789abcdef0123456789abcdef}\n"
    )
    return tmp_path


def started(folder, streams, *command):
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, *map(str, command)]
    return subprocess.Popen(shell, cwd=folder, env=os.environ | {"PYTHONPATH": SOURCE})


# ---- a server -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("streams", "command"),
    [("closed", ("model.py", "PORT")), ("full", ("-m", "reactor_trio", "run", "--port", "PORT"))],
    ids=["closed: run()", "full: reactor run, with the model in a process"],
)
def test_a_server_goes_on_although_its_output_is_lost(folder, streams, command):
    port = free_port()
    command = [str(port) if word == "PORT" else word for word in command]
    with started(folder, NO_STREAMS[streams], *command) as server:
        try:
            wait_until_ready(server, port)
            watch = f"client 127.0.0.1:{port} --token 0123456789abcdef0123456789abcdef --seconds 1 --record f.mkv"
            with started(folder, NO_STREAMS[streams], "-m", "reactor_trio", *watch.split()) as client:
                assert client.wait(60) == 0
            assert (folder / "f.mkv").stat().st_size > 1000
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


def wait_until_ready(server, port):
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return
        except urllib.error.URLError:  # also the 503 of a server that loads
            time.sleep(0.05)
    raise AssertionError(f"the server does not answer; its exit code is {server.poll()}")


# ---- other commands -----------------------------------------------------------------------------------------------------

#: Runs command lines, given as JSON, each with its kind of stdout; writes exit codes and stderr as JSON to a file.
EACH = """\
import io, json, os, sys
from reactor_trio.cli import main
found = []
for kind, arguments in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    os.close(reading)
    fd = os.open("/dev/full", os.O_WRONLY) if kind == "full" else writing
    os.dup2(fd, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    if kind == "closed":
        os.close(1)
        sys.stdout = None
    sys.stderr = io.StringIO()
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    found.append([kind, arguments, code, sys.stderr.getvalue()])
with open("found.json", "w") as file:
    json.dump(found, file)
"""
#: what a command with such a stdout ends with, if stdout is all that it makes
LOST = {
    "full": (2, "reactor: cannot write to standard output: No space left on device\n"),
    "left": (141, ""),
    "closed": (2, "reactor: cannot write to standard output: it is closed\n"),
}


PRODUCTS = [
    *((kind, ["schema"]) for kind in LOST),
    *(("full", command.split()) for command in ("types", "ticket", "deploy --print serve", "--version")),
    ("left", ["run", "--help"]),
]
FILES = [("full", ["schema", "--out", "schema.json"]), ("closed", ["render", "--frames", "2", "--out", "film.mkv"])]


def test_a_command_fails_only_if_its_requested_output_is_lost(folder):
    given = json.dumps([*PRODUCTS, *FILES])
    subprocess.run([sys.executable, "-c", EACH, given], cwd=folder, check=True, env=os.environ | {"PYTHONPATH": SOURCE})
    found = json.loads((folder / "found.json").read_text())
    for (kind, arguments), (_, _, code, said) in zip([*PRODUCTS, *FILES], found, strict=True):
        ours = "".join(line for line in said.splitlines(keepends=True) if line.startswith("reactor:"))
        ours = without_links(ours)
        assert (code, ours) == (LOST[kind] if (kind, arguments) in PRODUCTS else (0, "")), arguments


# ---- the streams --------------------------------------------------------------------------------------------------------


def test_a_process_ends_even_if_it_cannot_write_the_reason(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append(number))
    monkeypatch.setattr(lock_watcher, "_ends_by_itself", lambda _server: True)
    with open("/dev/full", "w") as full, pytest.raises(SystemExit):
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full.buffer.raw, write_through=True))
        lock_watcher.end_server(1, signal.SIGUSR1, signal.SIGUSR2, "it is stuck")
    assert sent == [signal.SIGUSR1]


def test_a_stream_that_is_not_the_processs_own_stays_as_it_is(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with optional_output():
        assert sys.stdout is out
    assert lost(out) is None
