"""Reactor's page on converting a pipeline: blocks 2 to 7 serve the research code of block 1 unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trio
from tests.support.mission_pages import IMPORTS, block, compose, runnable

import reactor_trio
from reactor_trio.client import connect
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

# Stand-ins for torch and the checkpoint; `num_steps`, which block 4 reads, is not in block 1.
RESEARCH = """
from types import SimpleNamespace

torch = SimpleNamespace(nn=SimpleNamespace(Module=object))

class Net:
    calls = 0

    def forward(self, prompt, step=0):
        Net.calls += 1
        frame = np.zeros(({batch}8, 8, 3), np.uint8)
        frame[..., 0], frame[..., 1], frame[..., 2] = len(prompt), step, 0
        return frame

def load_checkpoint(path):
    assert path == "weights.pt"
    return Net()

<research>

OriginalPipeline.num_steps = 3

"""
PAGE = RESEARCH.format(batch="") + "<outputs>\n\n<state>\n\n<model>\n"
BLOCKS = {"research": ("001", 1), "outputs": ("001", 2), "state": ("001", 3), "model": ("001", 4)}
CONFIG = {"path": "weights.pt"}


def reds(frames):
    return [int(frame.data[0, 0, 0]) for frame in frames]


def test_block_1_the_starting_point(modules):
    module = modules.load("research", IMPORTS + compose(RESEARCH.format(batch=""), research=("001", 1)))
    assert module.OriginalPipeline(CONFIG).inference("a cat", num_frames=2).shape == (2, 8, 8, 3)


async def test_block_2_tracks(autojump_clock, model_of):
    async with open_server(model_of(PAGE, **BLOCKS), config=CONFIG, step_cost=0.25) as server:
        async with server.connect() as client:
            assert [(track.name, track.kind, track.direction) for track in client.tracks] == [("main_video", "video", "out")]


async def test_block_3_state(autojump_clock, model_of):
    """A client can change each field by a command with the field's default and bounds."""
    async with open_server(model_of(PAGE, **BLOCKS), config=CONFIG, step_cost=0.25) as server:
        async with server.connect() as client:
            commands = {command["name"]: command["schema"]["properties"] for command in client.schema["commands"]}
            assert list(commands) == ["set_prompt", "set_guidance_scale"]
            assert commands["set_prompt"]["prompt"]["default"] == "a sunny meadow"
            scale = commands["set_guidance_scale"]["guidance_scale"]
            assert (scale["default"], scale["minimum"], scale["maximum"]) == (7.5, 1.0, 20.0)
            await client.command("set_guidance_scale", guidance_scale=20)
            assert server.model.state.guidance_scale == 20
            with pytest.raises(CommandError, match=r"Expected float >= 1.0 - at \$.guidance_scale"):
                await client.command("set_guidance_scale", guidance_scale=0.5)
            assert server.model.state.guidance_scale == 20


async def test_block_4_model_class(autojump_clock, model_of, thread):
    """Each frame is sent at once, the prompt changes live, and a generator that finishes is started again."""
    async with open_server(model_of(PAGE, **BLOCKS), config=CONFIG, step_cost=0.25, thread=thread) as server:
        async with server.connect() as client:
            frames = await client.take(5)
            assert [int(frame.data[0, 0, 1]) for frame in frames] == [0, 1, 2, 0, 1]
            assert [frame.pts for frame in frames] == [0.25, 0.5, 0.75, 1.0, 1.25]
            assert reds(frames) == [len("a sunny meadow")] * 5
            await client.command("set_prompt", prompt="a cat")
            assert reds(await client.take(4))[-1] == 5


async def test_block_5_batches(autojump_clock, model_of, thread, capfd):
    """The block is another `inference` of the same class: it follows the first one and replaces it."""
    template = RESEARCH.format(batch="5, ") + "<outputs>\n\n<state>\n\n<model>\n    <batched>\n"
    model = model_of(template, **BLOCKS, batched=("001", 5))
    async with open_server(model, config=CONFIG, step_cost=1.0, thread=thread) as server, server.connect() as client:
        frames = await client.take(10)
        assert [frame.step for frame in frames] == [0] * 5 + [1] * 5
        assert np.diff([frame.pts for frame in frames]) == pytest.approx([0.2] * 9, abs=2e-6)
    assert capfd.readouterr().out.startswith("(5, 8, 8, 3)\n")


@pytest.fixture
def project(tmp_path):
    """A folder with the page's files: `model.py`, `reactor.yaml` (block 6) and the `config.yml` that it names."""
    (tmp_path / "model.py").write_text(IMPORTS + compose(PAGE, **BLOCKS), encoding="utf-8")
    (tmp_path / "reactor.yaml").write_text(block("001", 6), encoding="utf-8")
    (tmp_path / "config.yml").write_text("path: weights.pt\n", encoding="utf-8")
    return tmp_path


def test_block_6_manifest(project):
    manifest = load_manifest(project)
    assert (manifest.model_path, manifest.name, manifest.config) == ("model:MyModel", "my-model", CONFIG)
    assert manifest.model.__name__ == "MyModel"


def test_block_7_reactor_run(project):
    """Runs the page's command in the project's folder; the manifest gives a free port."""
    with (project / "reactor.yaml").open("a") as file:
        file.write("runtime: {port: 0}\n")
    program, *arguments = runnable("001", 7).split()
    assert program == "reactor"
    source = str(Path(reactor_trio.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", *arguments], cwd=project, env=os.environ | {"PYTHONPATH": source},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            url = next(line.split()[-1] for line in process.stdout if line.startswith("my-model is ready: "))
            assert trio.run(first_frame, url) == ("my-model", [len("a sunny meadow")])
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            if process.poll() is None:
                process.kill()


async def first_frame(url):
    async with connect(url, video=["raw"]) as client:
        return client.name, reds([await anext(client.frames("main_video"))])
