"""`reactor loadtest` as a process against a real server over real sockets, also at the server's limits."""

from __future__ import annotations

import json
import re
import signal

import pytest
from test_cli_serving import project, running, started
from tests.support.cli_doubles import reactor

__all__ = ["project"]


def test_clients_come_watch_command_and_go(project, tmp_path):
    found = tmp_path / "figures.json"
    with running(project) as (_, url):
        done = reactor(
            "loadtest", url, "--sessions", 3, "--arrival", "all-at-once", "--length", 1.5, "--lengths", "fixed",
            "--commands", 4, "--vanish", 0.4, "--json", found, "--max-errors", 0, "--p99-first-picture", 100, "--seed", 7,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{url}: 3 sessions, all-at-once, fixed length of 1.5 s, seed 7"
    assert any(line.split()[:3] == ["first", "picture,", "ms"] for line in lines)
    assert lines[-1] == "errors: 0"
    figures = json.loads(found.read_text())
    outcomes = figures["outcomes"]
    assert sum(outcomes.values()) == figures["clients"] == figures["counts"]["sessions"] == 3
    assert outcomes == {"left": 2, "vanished": 1}
    assert figures["counts"]["pictures"] > 0
    assert figures["figures"]["command to ack"]["n"] == figures["commands"]["applied"] > 0
    assert figures["last_position"] == 2
    assert figures["figures"]["admission"]["max"] > 2.5


def test_a_missed_bar_is_exit_code_1(project):
    with running(project) as (_, url):
        done = reactor("loadtest", url, "--sessions", 1, "--length", 0.5, "--lengths", "fixed", "--p99-admission", 1e-6)
    assert done.returncode == 1
    assert done.stderr.startswith("reactor: a bar was missed: admission: p99 ")


@pytest.mark.soak
def test_a_refusal_names_the_limit(project):
    manifest = project / "reactor.yaml"
    text = manifest.read_text()
    assert "runtime:" not in text
    manifest.write_text(f"{text}runtime:\n  queue: 0\n")
    with running(project) as (_, url):
        done = reactor(
            "loadtest", url, "--sessions", 2, "--arrival", "all-at-once", "--length", 8, "--lengths", "fixed",
            "--patience", 5,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 left, 1 gave up" in done.stdout
    # 503; or 1013 if both clients passed the check for room before either took the place
    assert re.search(r"refused \d+ times: (HTTP 503, the server is full|close code 1013, no_room)", done.stdout)
    assert "raise runtime.queue in its reactor.yaml" in done.stdout


@pytest.mark.soak
def test_interrupted_it_prints_the_figures_so_far(project, tmp_path):
    found = tmp_path / "figures.json"
    with running(project) as (_, url):
        with started("loadtest", url, "--sessions", 2, "--rate", 100, "--length", 1000, "--json", found) as load:
            assert load.stdout.readline().startswith(url)
            assert "1 watch, 1 wait, 0 of 2 done\n" in iter(load.stdout.readline, "")  # a line each 10 s off a terminal
            load.send_signal(signal.SIGINT)
            out, err = load.communicate(timeout=120)
    assert (load.returncode, err) == (0, "")
    assert "2 interrupted" in out
    assert json.loads(found.read_text())["outcomes"] == {"interrupted": 2}


def test_no_server_is_a_mistake_in_the_command_line():
    done = reactor("loadtest", "http://127.0.0.1:9/", "--sessions", 2, "--rate", 100)
    assert done.returncode == 2
    assert done.stderr == (
        "reactor: http://127.0.0.1:9/: no connection; does the server run?\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--vanish", "1.5"], "argument --vanish: '1.5' is not a share, from 0 to 1; see reactor loadtest --help"),
        (["--viewers", "9", "--at-once", "4"], "--at-once: a session with its viewers is 10 clients, more than 4"),
        (["--commands", "-1"], "argument --commands: '-1' is not a number, 0 or more; see reactor loadtest --help"),
    ],
)  # fmt: skip
def test_impossible_options_are_one_line(arguments, error):
    done = reactor("loadtest", "127.0.0.1:9", *arguments)
    assert (done.returncode, done.stderr) == (2, f"reactor: {error}\n")
