"""A model that introduces itself and reports its load: a real `reactor run`, with the model in a thread and in a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from tests.support.forked_command import ForkedCommand
from tests.support.free_port import free_port
from tests.support.real_server import ENVIRONMENT, REACTOR

PATIENCE = 60
PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
MODEL = '''
import threading
import time
from pathlib import Path
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video, progress

class Picture(Output):
    main_video: Video

class Settings(InputState):
    level: int = InputField(default=1, ge=0, le=9, unit="cd")

class Lamp(ReactorPipeline):
    state: Settings
    output: Picture

    def load(self, config):
        thread = threading.Thread(target=progress, args=(0.25, "reading weights"))
        thread.start()
        thread.join()
        while not Path("go-on").exists():   # the test has seen the progress
            time.sleep(0.01)

    def inference(self):
        yield None
'''
MANIFEST = """
model: lamp:Lamp
title: A lamp
thumbnail: lamp.png
examples: [{name: Bright, picture: lamp.png, values: {level: 9}}]
runtime: {isolation: %s}
"""


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_real_server_shows_its_load_and_its_model(tmp_path, isolation):
    (tmp_path / "lamp.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text(MANIFEST % isolation)
    (tmp_path / "lamp.png").write_bytes(PNG)
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    with ForkedCommand(["run", "--port", port], cwd=tmp_path, env=ENVIRONMENT) as server:
        try:
            deadline = time.monotonic() + PATIENCE
            while (seen := get(f"{here}/health"))[0] == 0 or b"reading weights" not in seen[1]:
                assert server.poll() is None
                assert time.monotonic() < deadline, seen
            assert seen[0] == 503
            assert json.loads(seen[1])["progress"] == {"fraction": 0.25, "text": "reading weights"}
            assert get(f"{here}/schema")[0] == 503
            early = json.loads(get(f"{here}/schema?format=about")[1])  # so that a visitor sees what it will be
            assert (early["name"], early["about"]["title"], early["about"]["settings"]) == ("lamp:Lamp", "A lamp", {})
            assert get(f"{here}/pictures/lamp.png") == (200, PNG)  # the page may show it while the model loads
            (tmp_path / "go-on").touch()
            for line in server.stdout:
                if " is ready: " in line:
                    break
            about = json.loads(get(f"{here}/schema")[1])["about"]
            assert (about["title"], about["thumbnail"]) == ("A lamp", "pictures/lamp.png")
            assert about["examples"] == [{"name": "Bright", "picture": "pictures/lamp.png", "values": {"level": 9}}]
            assert about["settings"] == {"level": {"group": None, "advanced": False, "unit": "cd"}}
            server.send_signal(signal.SIGINT)
            _rest, log = server.communicate(timeout=PATIENCE)
            assert server.returncode == 0
            lines = [json.loads(line)["message"] for line in log.splitlines()]
            assert [line for line in lines if line.startswith("loading")] == ["loading: 25%, reading weights"]
        finally:
            server.kill()


PAGE = "docs/reference/errors.md"


def test_a_wrong_preset_ends_the_start_before_the_load(tmp_path):
    (tmp_path / "lamp.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("model: lamp:Lamp\nexamples: [{name: Bright, values: {level: 10}}]\n")
    done = subprocess.run(
        [*REACTOR, "run", "--port", "0"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    manifest = os.path.join(tmp_path, "reactor.yaml")
    told = f"reactor: {manifest}: examples[0] (Bright): values.level: Expected int <= 9"
    assert done.stderr == f"{told} ({PAGE}#introduction)\n"
