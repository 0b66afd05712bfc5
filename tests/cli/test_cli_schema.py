"""`reactor schema`: the schema without running `load`, and nothing else on stdout."""

from __future__ import annotations

import json
import re

import pytest
from tests.support.cli_doubles import reactor

MODEL = """\
from dataclasses import dataclass
from reactor_trio.interface import *
from reactor_trio.interface import InputField, InputState, ModelMessage, Output, ReactorPipeline, Video

print("imported")

@dataclass
class MyOutput(Output):
    main_video: Video

@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness")

@dataclass
class Progress(ModelMessage):
    step: int

class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        raise RuntimeError("load was called")

    def inference(self):
        yield None
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\n")
    (tmp_path / "pipeline.py").write_text(MODEL)
    return tmp_path


def test_it_lists_tracks_commands_and_messages_without_loading(project):
    done = reactor("schema", "--path", project)
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    assert list(schema) == ["name", "protocol", "schema_hash", "tracks", "commands", "messages", "about"]
    assert (schema["name"], schema["protocol"]) == ("my-model", 1)
    assert schema["tracks"] == [{"name": "main_video", "kind": "video", "direction": "out"}]
    (command,) = schema["commands"]
    assert (command["name"], command["description"]) == ("set_brightness", "Brightness")
    brightness = command["schema"]["properties"]["brightness"]
    assert (brightness["default"], brightness["minimum"], brightness["maximum"]) == (1.0, 0.0, 2.0)
    assert [message["name"] for message in schema["messages"]] == ["progress"]
    assert done.stderr == "imported\n"


def test_out_writes_the_same_to_a_file(project):
    done = reactor("schema", "--out", "schema.json", cwd=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert (project / "schema.json").read_text() == reactor("schema", cwd=project).stdout


def test_a_file_that_cannot_be_written_is_exit_code_2(project):
    done = reactor("schema", "--out", "none/schema.json", cwd=project)
    assert done.returncode == 2
    assert done.stderr.endswith("reactor: --out: cannot write none/schema.json: No such file or directory\n")


def test_a_wrong_declaration_is_exit_code_2_and_one_line(project):
    (project / "pipeline.py").write_text(MODEL.replace("default=1.0, ge=0.0", "default=3.0, ge=0.0"))
    done = reactor("schema", "--path", project)
    assert done.returncode == 2
    assert "importing pipeline raised DeclarationError: " in done.stderr
    assert re.search(r" \(at .*/pipeline\.py:\d+\)$", done.stderr.rstrip())
    assert done.stderr.removeprefix("imported\n").count("\n") == 1
