"""`reactor run --reload`: a supervisor and a child with real files and signals, and a fake server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tests.support.cli_doubles import __file__ as program
from tests.support.cli_doubles import without_links
from tests.support.forked_command import SOURCE, WITH_TESTS

READY = "my-model is ready: http://127.0.0.1:4321/\n"
ENCODERS = "encoders: "  # the last line of a start


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\n")
    (tmp_path / "pipeline.py").write_text("")
    return tmp_path


@contextmanager
def reloading(project, behaviour):
    """Run the supervisor as a process. Yields it and its output as an iterator of lines; the test must end it."""
    command = [sys.executable, program, behaviour, "run", "--path", str(project), "--port", "0", "--reload"]
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": WITH_TESTS}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, iter(process.stdout)
        finally:
            if process.poll() is None:
                process.terminate()  # it takes the server along; a kill would leave that behind
                process.wait(120)


def until(lines, wanted):
    seen = []
    for line in lines:
        seen.append(line)
        if line.startswith(wanted):
            return seen
        if line.startswith("the server ended"):
            break  # and nothing more will come
    raise AssertionError(f"never came: {wanted!r} in {seen}")


def test_a_changed_source_file_drains_and_restarts_the_server(project):
    with reloading(project, "waits") as (process, lines):
        until(lines, ENCODERS)
        (project / "notes.txt").write_text("not watched")
        (project / "pipeline.py").write_text("x = 1\n")
        seen = until(lines, ENCODERS)
        assert READY in seen
        assert seen[:2] == ["pipeline.py changed, restarting\n", "loading my-model ...\n"]
        process.send_signal(signal.SIGINT)
        assert list(lines) == ["draining my-model; a second signal ends at once\n"]
        assert process.wait() == 0


def test_a_model_in_one_file_is_served_again_and_a_server_that_does_not_end_is_killed_with_its_processes(project):
    (project / "reactor.yaml").unlink()
    with reloading(project / "pipeline.py", "hangs") as (process, lines):
        until(lines, ENCODERS)
        (project / "helper.py").write_text("x = 1\n")
        seen = until(lines, ENCODERS)
        assert seen[:2] == ["helper.py changed, restarting\n", "loading pipeline ...\n"]
        process.send_signal(signal.SIGINT)
        seen += list(lines)
        assert process.wait(120) == 0
        assert "left over\n" not in seen


def test_a_server_that_fails_waits_for_the_next_change(project):
    (project / "reactor.yaml").write_text("modl: pipeline:MyModel\n")
    with reloading(project, "waits") as (process, lines):
        until(lines, "waiting for a change in ")
        (project / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\n")
        until(lines, READY)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.parametrize(("behaviour", "name"), [("crashes", "SIGSEGV"), ("aborts", "SIGABRT")])
def test_a_native_crash_is_named_with_its_remedy(project, behaviour, name):
    with reloading(project, behaviour) as (process, lines):
        seen = until(lines, f"{name} ended it: ")
        assert seen[-1] == (
            f"{name} ended it: with --isolation process (runtime.isolation) the server would go on, and load the model "
            "again (docs/reference/errors.md#native-crash)\n"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_second_signal_takes_the_server_along(project):
    with reloading(project, "stubborn") as (process, lines):
        until(lines, READY)
        process.send_signal(signal.SIGTERM)
        until(lines, "draining my-model")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
        left = list(lines)  # to the end of file: no process holds the pipe any more
        assert READY not in left
        assert "left over\n" not in left


def test_without_watchfiles_the_error_names_what_to_install(project, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['watchfiles'] = None\n")
    done = subprocess.run(
        [sys.executable, "-m", "reactor_trio", "run", "--path", str(project), "--reload"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{SOURCE}"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    told = "reactor: --reload needs the package watchfiles: pip install 'reactor-trio[reload]'\n"
    assert without_links(done.stderr) == told
