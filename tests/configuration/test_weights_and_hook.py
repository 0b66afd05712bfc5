"""`get_weights_path()`, and the function that `runtime.moderate` names: found by the manifest, used by a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from reactor_trio.client import connect
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.interface import ReactorModel, get_weights_path
from reactor_trio.server.serve import serve

PIPELINE = """
import numpy as np
from reactor_trio import InputField, InputState, Output, ReactorPipeline, Video, event, get_weights_path

AT_IMPORT = get_weights_path()

class Picture(Output):
    main_video: Video

class Words(InputState):
    prompt: str = InputField(default="", moderate=True)

class Painter(ReactorPipeline):
    state: Words

    def load(self, config):
        self.at_load = get_weights_path()

    @event
    def weights(self):
        return [str(path) for path in (AT_IMPORT, self.at_load, get_weights_path())]

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)
"""


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv("REACTOR_WEIGHTS_PATH", raising=False)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "weighty.py").write_text(PIPELINE)
    (tmp_path / "guard.py").write_text(
        "import threading\n\n"
        "async def moderate(text, *, command, field):\n"
        "    return threading.current_thread().name + ': no' if 'cat' in text else None\n\n"
        "LIST = []\n"
    )
    return tmp_path


def write(project, text):
    (project / "reactor.yaml").write_text(f"model: weighty:Painter\n{text}\n")
    return load_manifest(project, runtime_overrides={"port": 0})


def test_the_environment_then_the_manifest_then_the_cache(monkeypatch, tmp_path):
    assert get_weights_path() == Path.home() / ".cache" / "reactor_registry"
    monkeypatch.setenv("REACTOR_WEIGHTS_PATH", "~/weights")
    assert get_weights_path() == Path.home() / "weights"


def test_the_manifest_s_folder_is_relative_to_it(project):
    assert write(project, "").weights is None
    assert write(project, "weights_path: data/w").weights == project / "data" / "w"
    assert write(project, "weights_path: ~/w").weights == Path.home() / "w"


async def test_a_served_model_knows_its_weights_and_its_texts_are_checked(project, monkeypatch):
    manifest = write(project, "weights_path: w\nruntime:\n  moderate: guard:moderate")
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(lambda task_status: serve(manifest, drain=drain, task_status=task_status))
        async with connect(f"ws://127.0.0.1:{serving.port}/ws", video="none") as client:
            assert await client.command("weights") == [str(project / "w")] * 3
            monkeypatch.setenv("REACTOR_WEIGHTS_PATH", "/elsewhere")
            assert (await client.command("weights"))[2] == "/elsewhere"
            await client.command("set_prompt", prompt="a dog")
            with pytest.raises(CommandError, match=": no") as refused:
                await client.command("set_prompt", prompt="a cat")
            assert refused.value.code == "moderated"
            assert "reactor-model" not in str(refused.value)
            assert "MainThread" not in str(refused.value)
        drain.set()
    assert get_weights_path() == Path("/elsewhere")


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("guard", "runtime.moderate: expected module:function, got 'guard'"),
        ("guard:nothing", "runtime.moderate: .*guard.py has no function nothing"),
        ("guard:LIST", "runtime.moderate: .*guard.py has no function LIST"),
        ("gard:moderate", "runtime.moderate: no module gard"),
    ],
)
def test_a_hook_that_is_not_there_is_a_manifest_error(project, named, words):
    with pytest.raises(ManifestError, match=words):
        write(project, f"runtime:\n  moderate: {json.dumps(named)}").moderate  # noqa: B018


async def test_without_a_manifest_the_hook_itself_is_given():
    class Model(ReactorModel): ...

    with pytest.raises(ManifestError, match=r"serve\(\.\.\., moderate=\.\.\.\)"):
        await serve(Model, settings=Settings(moderate="guard:moderate"))
