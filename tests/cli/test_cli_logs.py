"""The log of `reactor run`: lines of the runtime, of the author and of libraries, readable or as JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
import trio
from tests.support.cli_doubles import ON_A_TERMINAL, SOURCE, reactor
from tests.support.forked_command import ForkedCommand

from reactor_trio.client import connect

MODEL = """
import logging, warnings
import numpy as np
import structlog
from reactor_trio.interface import Output, ReactorPipeline, Video

log, slog = logging.getLogger("mine"), structlog.get_logger("mine.structured")
slog.info("imported", answer=42)
warnings.warn("old", stacklevel=1)

class Picture(Output):
    picture: Video

class Model(ReactorPipeline):
    output: Picture

    def load(self, config):
        log.info("loading %s", "weights", extra={"bytes": 7})

    def inference(self):
        log.info("first step")
        slog.warning("first step of %s", "all", seed=3)
        yield np.zeros((4, 4, 3), np.uint8)
        raise ValueError("the model's mistake")
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("model: model:Model\nname: demo\nruntime: {port: 0}\n")
    return tmp_path


async def watch(url: str) -> str:
    """Watch until the session is over and return its id."""
    async with connect(url.replace("http", "ws") + "ws?token=hunter2", video=["raw"]) as client:
        try:
            async for _ in client.frames("picture"):
                pass
        except Exception:
            return client.session_id
    raise AssertionError("the model raised nothing")


def serve_one_session(project, *options, stderr=subprocess.PIPE) -> tuple[str, str | None]:
    """Serve until a client has seen the model fail. Returns the session's id and stderr."""
    with ForkedCommand(["run", "--path", project, *options], env=ON_A_TERMINAL, stderr=stderr) as process:
        try:
            url = next(line.split()[-1] for line in process.stdout if " is ready: " in line)
            sid = trio.run(watch, url)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                process.kill()
    return sid, err


def test_without_a_terminal_every_line_is_json_with_model_and_session(project):
    sid, err = serve_one_session(project)
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["model"] for line in lines} == {"demo"}
    told = [(line["logger"], line["level"], line["message"], line.get("session")) for line in lines]
    peer = next(text.split()[4] for *_, text, _ in told if text.startswith("client 1 connects"))
    (warning,) = (entry for entry in told if entry[0] == "py.warnings")
    assert "UserWarning: old" in warning[2]
    told.remove(warning)
    assert told == [
        ("mine.structured", "INFO", "imported", None),
        ("mine", "INFO", "loading weights", None),
        ("reactor_trio.connection", "INFO", f"client 1 connects from {peer} as control", None),
        ("reactor_trio.server", "INFO", f"session {sid} begins", sid),
        ("mine", "INFO", "first step", sid),
        ("mine.structured", "WARNING", "first step of all", sid),
        ("reactor_trio.session", "ERROR", f"session {sid}: the model raised", sid),
        ("reactor_trio.server", "INFO", f"session {sid} ended: model_error", sid),
        ("reactor_trio.connection", "INFO", "client 1 has left: model_error", sid),
    ]
    given = {key: line[key] for line in lines for key in ("answer", "bytes", "seed") if key in line}
    assert given == {"answer": 42, "bytes": 7, "seed": 3}
    (failed,) = (line for line in lines if "traceback" in line)
    assert failed["traceback"].startswith("Traceback (most recent call last)")
    assert re.search(r"ValueError: the model's mistake\n\(at .*:\d+\) \(.*#model-failed\)$", failed["traceback"])
    assert "hunter2" not in err


def test_on_a_terminal_lines_are_readable_with_one_traceback(project):
    ours, theirs = pty.openpty()
    try:
        sid, _ = serve_one_session(project, stderr=theirs)
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:  # the end of a terminal
            pass
    finally:
        os.close(ours)
    text = said.decode()
    assert "\x1b[" in text
    assert "{" not in text
    assert text.count("ValueError: the model's mistake") == 1
    assert text.count(sid) >= 5


def test_readable_lines_on_request(project):
    sid, err = serve_one_session(project, "--no-json-logs")
    assert "\x1b[" not in err
    (line,) = (line for line in err.splitlines() if "first step of all" in line)
    assert line[8:].split() == ["[warning", "]", "first", "step", "of", "all", "model=demo", f"session={sid}", "seed=3"]


def test_a_model_that_can_do_without_structlog_is_served_where_that_is_not_installed(tmp_path):
    (tmp_path / "model.py").write_text(
        "import logging\nfrom reactor_trio.interface import ReactorPipeline\n"
        "try:\n    import structlog\n    log = structlog.get_logger()\n"
        "except ModuleNotFoundError:\n    log = logging.getLogger('plain')\n"
        "log.info('imported')\n"
        "class Model(ReactorPipeline):\n    def load(self, config):\n        raise RuntimeError('far enough')\n"
    )
    (tmp_path / "reactor.yaml").write_text("model: model:Model\nname: sky\nruntime: {port: 0}\n")
    program = "import sys; sys.modules['structlog'] = None; from reactor_trio.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "run", "--path", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    first = json.loads(done.stderr.splitlines()[0])
    assert (first["logger"], first["message"], first["model"]) == ("plain", "imported", "sky"), done.stderr


def test_a_models_package_logs_with_structlog_while_it_is_imported(tmp_path):
    package = tmp_path / "sky"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("import structlog\nstructlog.get_logger('parts').bind(a=1).info('imported')\n")
    (package / "model.py").write_text(
        "from reactor_trio.interface import ReactorPipeline\nfrom sky import parts\n"
        "class Model(ReactorPipeline):\n    def load(self, config):\n        raise RuntimeError('far enough')\n"
    )
    (tmp_path / ".#model.py").symlink_to("person@machine.1:2")  # an editor's lock: a link to nothing
    (package / ".#parts.py").symlink_to("person@machine.1:2")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "reactor.yaml").write_text("model: sky.model:Model\nname: sky\nruntime: {port: 0}\n")
    done = reactor("run", "--path", tmp_path)
    assert done.returncode == 1, done.stderr
    first = json.loads(done.stderr.splitlines()[0])
    assert (first["logger"], first["message"], first["a"], first["model"]) == ("parts", "imported", 1, "sky")
