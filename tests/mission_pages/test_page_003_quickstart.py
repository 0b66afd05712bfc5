"""Reactor's quickstart, the model that `reactor init` writes: each code block exactly as on the page, and its promises."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.support.mission_pages import IMPORTS, block, compose, runnable

import reactor_trio
from reactor_trio.cli.init_command import PLACEHOLDER
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

TEMPLATE = Path(reactor_trio.__file__).parent / "cli" / "templates" / "gradient"

# The function that the comments at the end of block 1 describe.
RENDER_BODY = """
    frames = np.zeros((chunk_size, height, width, 3), np.uint8)
    for i in range(chunk_size):
        frames[i] = 100 * brightness
        frames[i, ..., 1] = start_idx + i
    return frames, start_idx + chunk_size
"""
RENDER = "\ndef render_batch(width, height, chunk_size, start_idx, brightness):" + RENDER_BODY
FULL = "<block>" + RENDER_BODY
PARTS = """
<output>

<state>

<model>
    buffer_size = 8

    <load>

    <inference>
""" + RENDER
SMALL = {"width": 16, "height": 8}


def whole(model_of):
    return model_of(FULL, block=("003", 1))


def parts(model_of, output=("003", 2)):
    return model_of(PARTS, output=output, state=("003", 4), model=("003", 5), load=("003", 6), inference=("003", 7))


@pytest.mark.parametrize("made", [whole, parts])
async def test_block_1_the_full_model(autojump_clock, model_of, thread, made):
    """The whole file runs, and so does the file that blocks 2 and 4 to 7 form."""
    model = made(model_of)
    assert model.buffer_size == 8
    async with open_server(model, config=SMALL, step_cost=1.0, thread=thread) as server, server.connect() as client:
        frames = await client.take(8)
        assert [int(frame.data[0, 0, 1]) for frame in frames] == list(range(8))
        assert [frame.pts for frame in frames] == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75]
        await client.command("set_brightness", brightness=0.5)
        assert int((await client.take(8))[-1].data[0, 0, 0]) == 50


def test_block_1_is_what_init_writes():
    """The template has the page's code, down to the function that the page leaves out."""
    imports, code, _ = re.split(r"\n\n(?=@dataclass\nclass MyOutput)|(?=def render_batch)", runnable("003", 1))
    written = (TEMPLATE / "pipeline.py").read_text()
    assert f"\n{imports}\n" in written
    assert f"\n\n\n{code.rstrip()}\n\n\n" in written


async def test_block_2_output_tracks(autojump_clock, model_of):
    async with open_server(parts(model_of), config=SMALL, step_cost=1.0) as server, server.connect() as client:
        assert [(track.name, track.kind) for track in client.tracks] == [("main_video", "video")]


async def test_block_3_more_tracks(autojump_clock, model_of, thread):
    """The field names become the tracks' names; sound goes with the picture and sets its duration."""
    template = """
<output>

class MyModel(ReactorPipeline):
    def inference(self):
        n = 0
        while True:
            yield MyOutput(
                main_video=np.full((8, 16, 3), n, np.uint8), main_audio=np.full((1, 12_000), n, np.int16)
            )
            n += 1
"""
    async with open_server(model_of(template, output=("003", 3)), step_cost=0.1, thread=thread) as server:
        async with server.connect() as client:
            assert [(track.name, track.kind) for track in client.tracks] == [
                ("main_video", "video"), ("main_audio", "audio"),
            ]  # fmt: skip
            assert client.tracks[1].sample_rate == 48_000
            pictures = await client.take(3, "main_video")
            sounds = await client.take(3, "main_audio")
            assert [frame.pts for frame in pictures] == [frame.pts for frame in sounds] == [0.1, 0.35, 0.6]
            assert [int(frame.data[0, 0]) for frame in sounds] == [0, 1, 2]
            assert sounds[0].data.dtype == np.int16


async def test_block_4_client_state(autojump_clock, model_of):
    async with open_server(parts(model_of), config=SMALL, step_cost=1.0) as server, server.connect() as client:
        (command,) = client.schema["commands"]
        assert (command["name"], command["description"]) == ("set_brightness", "Brightness multiplier")
        field = command["schema"]["properties"]["brightness"]
        assert (field["default"], field["minimum"], field["maximum"]) == (1.0, 0.0, 2.0)
        with pytest.raises(CommandError, match=r"Expected float <= 2.0 - at \$.brightness"):
            await client.command("set_brightness", brightness=2.5)


async def test_block_5_model_class(autojump_clock, model_of):
    """`state: MyState` gives `self.state` its shape."""
    async with open_server(parts(model_of), config=SMALL, step_cost=1.0) as server, server.connect() as client:
        await client.take(1)
        assert type(server.model.state).__name__ == "MyState"
        assert server.model.state.brightness == 1.0


async def test_block_6_loading(autojump_clock, model_of):
    """`load` is called once with the values of config.yml, before a client can connect."""
    async with open_server(parts(model_of), config={"chunk_size": 2}, step_cost=1.0) as server:
        assert (server.model.width, server.model.height, server.model.chunk_size) == (640, 480, 2)
        async with server.connect() as client:
            assert [frame.step for frame in await client.take(4)] == [0, 0, 1, 1]


async def test_block_7_inference_generator(autojump_clock, model_of, thread):
    """State updates are delivered between iterations."""
    async with open_server(parts(model_of), config=SMALL, step_cost=1.0, thread=thread) as server:
        async with server.connect() as client:
            await client.command("set_brightness", brightness=0.5)
            frames = await client.take(8)
            for step in (0, 1):
                assert len({int(frame.data[0, 0, 0]) for frame in frames if frame.step == step}) == 1


def test_block_8_manifest(tmp_path):
    (tmp_path / "pipeline.py").write_text(IMPORTS + compose(FULL, block=("003", 1)), encoding="utf-8")
    (tmp_path / "reactor.yaml").write_text(block("003", 8), encoding="utf-8")
    (tmp_path / "config.yml").write_text("width: 320\n", encoding="utf-8")
    manifest = load_manifest(tmp_path)
    assert (manifest.name, manifest.config, manifest.model.__name__) == ("my-model", {"width": 320}, "MyModel")
    written = (TEMPLATE / "reactor.yaml").read_text().replace(PLACEHOLDER, "my-model")
    assert written.startswith(block("003", 8))  # what follows introduces the model to people
