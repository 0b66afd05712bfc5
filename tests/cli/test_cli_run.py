"""`reactor run` with a fake server: its output, its exit codes and its signals."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys

import pytest
from tests.support.cli_doubles import reactor

from reactor_trio.cli import main
from reactor_trio.cli.log_output import LineFormatter

MODEL = """\
from reactor_trio.interface import ReactorModel

class MyModel(ReactorModel):
    def load(self, config):
        raise RuntimeError(f"no weights\\nfor {config}")
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\n")
    (tmp_path / "pipeline.py").write_text(MODEL)
    return tmp_path


def run(project, behaviour, *arguments):
    return reactor("run", "--path", project, *arguments, behaviour=behaviour)


@pytest.mark.parametrize("behaviour", ["terminated", "interrupted", "hung_up", "hung_up_twice"])
def test_one_signal_drains_and_exits_0(project, behaviour):
    done = run(project, behaviour, "--port", "0")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "loading my-model ..."
    assert lines[1].startswith("loaded my-model in ")
    assert lines[2:] == [
        "my-model is ready: http://127.0.0.1:4321/",
        "encoders: h264 (libx264), raw (none)",
        "draining my-model; a second signal ends at once",
    ]
    assert done.stderr == ""


def test_a_second_signal_ends_at_once(project):
    assert run(project, "two_signals").returncode == 128 + signal.SIGTERM


def test_a_signal_while_the_model_loads_ends_at_once_with_0(project):
    done = run(project, "signal_while_loading")
    assert (done.returncode, done.stdout, done.stderr) == (0, "loading my-model ...\n", "")


def test_host_and_port_of_the_command_line_win(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nruntime: {host: 127.0.0.2, port: 9000}\n")
    assert "ready: http://127.0.0.2:9000/\n" in run(project, "terminated").stdout
    done = run(project, "terminated", "--host", "127.0.0.3", "--port", "9001")
    assert "ready: http://127.0.0.3:9001/\n" in done.stdout


def test_a_nested_manifest_is_served_and_keys_without_effect_are_logged_once(project):
    (project / "reactor.yaml").write_text(
        "$schema: reactor/v2\nmodel: {name: nested}\nruntime: {import: 'pipeline:MyModel'}\nrecording: {enabled: true}\n"
    )
    done = run(project, "terminated", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loading nested ...\n")
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["message"].startswith("reactor.yaml: recording has no effect here; docs/reference/model/migr")


def test_a_load_that_raises_is_one_line_with_the_authors_line_number(project):
    done = run(project, "load_fails", "--set", "width=3")
    assert done.returncode == 1
    assert done.stderr == "reactor: load() failed: RuntimeError: no weights for {'width': 3} (pipeline.py:5)\n"
    assert "ready" not in done.stdout


def test_debug_shows_the_traceback_above_the_line(project):
    done = run(project, "load_fails", "--debug")
    assert done.returncode == 1
    assert 'raise RuntimeError(f"no weights' in done.stderr
    assert done.stderr.splitlines()[-1].startswith("reactor: load() failed: RuntimeError: no weights")


def test_a_model_that_ends_while_it_serves_is_exit_code_1(project):
    done = run(project, "run_returns")
    assert (done.returncode, done.stderr) == (1, "reactor: run() returned, so there is no model to serve\n")


def test_a_port_in_use_is_exit_code_2_and_names_a_remedy(project):
    done = run(project, "taken")
    assert done.returncode == 2
    assert done.stderr == (
        "reactor: cannot listen on 127.0.0.1:8080: Address already in use; stop what uses it "
        "(ss -ltnp 'sport = :8080'), or choose another --port (0 picks a free one)\n"
    )


def test_a_bug_of_the_runtime_is_exit_code_70(project):
    done = run(project, "bug")
    assert done.returncode == 70
    assert done.stderr == (
        "reactor: the runtime itself failed: AssertionError: two sessions in one room (--debug shows the traceback)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run m.py --prot 8080", "unrecognized arguments: --prot 8080; did you mean --port? See reactor run --help"),
        ("run --prot=8080", "reactor: unrecognized arguments: --prot=8080; did you mean --port? See reactor run --help"),
        ("doctor --zzz", "reactor: unrecognized arguments: --zzz; see reactor doctor --help"),
        ("run --isolation proces", "from 'thread', 'process'); did you mean process? See reactor run --help"),
        ("rnu", "'loadtest'); did you mean run? See reactor --help"),
    ],
)
def test_a_word_that_is_almost_one_is_told_which(arguments, words, capsys):
    assert main(arguments.split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--port", "65536"], "reactor: argument --port: '65536' is not a port (0 to 65535); see reactor run"),
        (["run", "--port", "-1"], "reactor: argument --port"),
        (["run", "--set", "width"], "reactor: --set width: expected key.sub=value"),
        (["run", "--por", "1"], "reactor: unrecognized arguments: --por;"),
        (["run", "one", "extra"], "reactor: unrecognized arguments: extra"),
        (["serve"], "reactor: argument COMMAND: invalid choice: 'serve'"),
        (["client"], "reactor: the following arguments are required: URL"),
        (["client", "ftp://a"], "reactor: 'ftp://a' is not a URL such as http://127.0.0.1:8080/"),
        (["client", "http://a:99999"], "reactor: 'http://a:99999' is not a URL"),
        (["client", "ws://127.0.0.1:1", "--send", "a b=1"], "reactor: --send a b=1: expected set_field=value"),
        (["client", "ws://127.0.0.1:1", "--send", "jump=1"], "reactor: --send jump=1: jump is not a set_ command"),
        (["client", "ws://127.0.0.1:1", "--send", "set_x=[1"], "reactor: --send set_x=[1: the value is not valid YAML"),
        (["client", "ws://127.0.0.1:1", "--seconds", "0"], "reactor: argument --seconds: '0' is not a number of"),
        (["client", "127.0.0.1:1"], "reactor: ws://127.0.0.1:1: cannot connect to 127.0.0.1:1: Connection refused; "),
        (["client", "127.0.0.1:1/?x=ä"], "reactor: 'ws://127.0.0.1:1/': a URL, its query included, has visible ASCII"),
        (["loadtest", "127.0.0.1:1/ä"], "reactor: 'ws://127.0.0.1:1/ä': a URL, its query included, has visible ASCII"),
        (["loadtest", "127.0.0.1:1", "--video", "mpeg"], "reactor: --video: video=mpeg cannot be decoded here; available: "),
    ],
)
def test_a_mistake_in_the_command_line_is_one_line_and_exit_code_2(project, arguments, message, monkeypatch, capsys):
    monkeypatch.chdir(project)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert (err.count("\n"), out) == (1, "")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_lists_the_commands(arguments):
    done = reactor(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: reactor ")
    for command in ("init", "run", "schema", "doctor", "client", "render"):
        assert f"\n    {command} " in done.stdout


def test_a_missing_class_is_one_line_and_exit_code_2(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModle\n")
    done = reactor("schema", "--path", project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("pipeline.py has no class MyModle; did you mean pipeline:MyModel?\n")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_goes_away_does_not_stop_the_server(project):
    reading, writing = os.pipe()
    os.close(reading)  # the first line already breaks the pipe
    done = reactor("run", "--path", project, behaviour="terminated", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


# --- logs -------------------------------------------------------------------------------------------------------------


def record(message, *arguments, **named):
    return logging.getLogger("reactor_trio.session").makeRecord(
        "reactor_trio.session", logging.WARNING, __file__, 1, message, arguments, **named
    )


def test_a_readable_log_line_carries_the_models_name():
    line = LineFormatter("100%-mine", as_json=False).format(record("step took %d ms", 7, exc_info=None, extra={"level": 3}))
    assert line[8:].split() == ["[warning", "]", "step", "took", "7", "ms", "model=100%-mine", "level_=3"]


def test_a_readable_traceback_appears_once_and_without_values_of_variables():
    secret = "hunter2"
    try:
        raise ValueError(f"deep {len(secret)}")
    except ValueError:
        line = LineFormatter("mine", as_json=False).format(record("failed", exc_info=sys.exc_info()))
    assert line.count("ValueError: deep 7") == 1
    assert line.count("Traceback (most recent call last)") == 1
    assert secret not in line


def test_a_json_log_line_carries_name_extras_and_traceback():
    try:
        raise ValueError("deep")
    except ValueError:
        failing = record("failed", exc_info=sys.exc_info(), extra={"session_id": "s1", "odd": 1j})
    line = json.loads(LineFormatter("mine", as_json=True).format(failing))
    assert line.pop("traceback").endswith("ValueError: deep")
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING", "model": "mine", "logger": "reactor_trio.session", "message": "failed",
        "session_id": "s1", "odd": "1j",
    }  # fmt: skip


def test_a_value_that_json_cannot_hold_is_written_as_its_repr():
    circle: dict[object, object] = {(1, 2): "\ud800"}
    circle["self"] = circle
    odd = record("odd", exc_info=None, extra={"model": circle, "n": 2**80})
    line = json.loads(LineFormatter("mine", as_json=True).format(odd))
    assert (line["model"], line["message"], line["n"]) == ("mine", "odd", str(2**80))
    assert "'self': {...}" in line["model_"]
