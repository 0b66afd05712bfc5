"""The facts that the application has of a model without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.replica_kit import REPLICAS

from reactor_trio.errors import ManifestError
from reactor_trio.replicas.model_facts import facts_of
from reactor_trio.replicas.options import Options

MODEL = """
from reactor_trio import Output, ReactorPipeline, Video

print("a model that talks when it is imported")


class Picture(Output):
    picture: Video


class Sky(ReactorPipeline):
    output: Picture
    max_sessions = 3

    def inference(self):
        yield None
"""


def project(folder: Path, manifest: str = "model: sky:Sky\n", model: str = MODEL) -> Options:
    (folder / "reactor.yaml").write_text(manifest)
    (folder / "sky.py").write_text(model)
    return Options(path=str(folder))


def test_the_facts_are_those_of_the_model_and_it_is_not_imported_here() -> None:
    facts = facts_of(Options(path=str(REPLICAS / "model")))
    assert (facts.name, facts.slots, facts.schema["name"]) == ("crashing:Crashing", 1, "crashing:Crashing")
    assert {"who", "hang"} <= {command["name"] for command in facts.schema["commands"]}
    assert "crashing" not in sys.modules


def test_a_model_that_prints_does_not_spoil_the_facts(tmp_path: Path) -> None:
    assert facts_of(project(tmp_path)).slots == 3


def test_the_manifests_sessions_are_the_slots(tmp_path: Path) -> None:
    assert facts_of(project(tmp_path, "model: sky:Sky\nname: sky\nruntime: {max_sessions: 2}\n")).slots == 2


@pytest.mark.parametrize(
    ("manifest", "model", "words"),
    [
        ("model: cloud:Sky\n", MODEL, "cloud"),
        ("model: sky:Cloud\n", MODEL, "Cloud"),
        ("model: sky:Sky\n", "import no_such_package\n", "no_such_package"),
        ("model: sky:Sky\n", "raise RuntimeError('first line\\nlast line')\n", "last line"),
        ("model: sky:Sky\nruntime: {queue: many}\n", MODEL, "runtime.queue"),
        ("model: sky:Sky\n", "import os\nos._exit(3)\n", "the project cannot be read (exit code 3)"),
    ],
    ids=["module", "class", "import", "raises", "setting", "exits"],
)
def test_a_project_that_cannot_be_imported_is_one_line(tmp_path: Path, manifest: str, model: str, words: str) -> None:
    with pytest.raises(ManifestError) as refused:
        facts_of(project(tmp_path, manifest, model))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
