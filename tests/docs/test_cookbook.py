"""What the reader of a recipe does on its page, in virtual time. `test_doc_blocks.py` serves the recipes as they stand."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from PIL import Image
from tests.docs.blocks.page import ROOT, blocks_of

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server, open_session

COOKBOOK = ROOT / "docs" / "cookbook"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that gives the module `model.py` of a recipe."""

    def module(name: str) -> Any:
        (block,) = [block for block in blocks_of(COOKBOOK / f"{name}.md") if block.file == "model.py"]
        made = types.ModuleType(f"cookbook_{name.replace('-', '_')}")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec", dont_inherit=True), vars(made))
        return made

    return module


def where(picture: np.ndarray) -> tuple[int, int]:
    """The top left corner of what is lighter than the rest, as x and y."""
    rows, columns = np.nonzero(picture[..., 0] > 128)
    return int(columns.min()), int(rows.min())


async def test_a_held_arrow_key_moves_the_square(recipe, autojump_clock):
    async with open_session(recipe("arrow-keys").Walk, step_cost=0.01) as client:
        ways = {"key_right": (10, 0), "key_left": (-10, 0), "key_down": (0, 10), "key_up": (0, -10)}
        assert where((await client.take(1))[0].data) == (150, 110)
        for key, (right, down) in ways.items():
            await client.command(key, down=True)
            begin = where((await client.take_after()).data)
            end = where((await client.take(2))[-1].data)
            assert (end[0] - begin[0], end[1] - begin[1]) == (right, down)
            await client.command(key, down=False)
            rests = where((await client.take_after()).data)
            assert where((await client.take(2))[-1].data) == rests


async def test_the_controls_change_the_picture(recipe, autojump_clock):
    async with open_session(recipe("controls").Shapes, step_cost=0.01) as client:
        first = (await client.take(1))[0].data
        assert first[120, 160].tolist() == [230, 60, 60]
        for command, value, expected in [
            ("prompt", "a blue shape", [70, 110, 240]), ("size", 1.0, [70, 110, 240]), ("shape", "box", [70, 110, 240]),
        ]:  # fmt: skip
            await client.command(f"set_{command}", **{command: value})
            picture = (await client.take_after()).data
            assert picture[120, 160].tolist() == expected
        assert picture[2, 50].tolist() == [70, 110, 240]  # the corner, which no ball has
        await client.command("swap")
        assert (await client.take_after()).data[2, 50].tolist() == [20, 20, 20]
        await client.take(6)  # the changed value arrives within 0.1 s
        assert client.state["shape"] == "ball"
        with pytest.raises(CommandError, match="Invalid enum value 'star'"):
            await client.command("set_shape", shape="star")


async def test_the_camera_is_mirrored_and_inverted(recipe, autojump_clock):
    async with open_session(recipe("webcam").Mirror, step_cost=0.01) as client:
        seen = np.zeros((4, 6, 3), np.uint8)
        seen[:, 0] = 100
        await client.push("camera", seen)
        (frame,) = await client.take(1)
        assert (frame.data[:, -1] == 155).all()
        await client.command("set_inverted", inverted=False)
        await client.push("camera", seen)
        assert ((await client.take_after()).data[:, -1] == 100).all()


async def test_the_tone_has_the_pitch_and_no_gap(recipe, autojump_clock):
    async with open_session(recipe("sound").Tone, step_cost=0.01) as client:
        blocks = [(await client.take(1, "main_audio"))[0].data[0] for _ in range(30)]
        samples = np.concatenate(blocks).astype(float)
        assert len(samples) == 48_000
        assert int(np.abs(np.fft.rfft(samples)).argmax()) == 220  # Hz, since it is one second
        assert np.abs(np.diff(samples)).max() <= 6000 * 2 * np.pi * 220 / 48_000 + 1


async def test_three_play_at_once_and_the_fourth_waits(recipe, autojump_clock):
    async with open_server(recipe("three-at-once").Rolling, step_cost=0.001) as server:
        with trio.fail_after(60):
            async with server.connect() as one, server.connect() as two, server.connect() as three:
                for client in (one, two, three):
                    await client.take(1)
                places = []
                with trio.move_on_after(1):
                    async with server.connect(on_queued=lambda *place: places.append(place)):
                        raise AssertionError("a fourth plays")
                assert places == [(1, 1)]


async def test_two_sessions_are_one_batch(recipe, autojump_clock):
    model = recipe("torch-batches").Moods
    sizes = []
    plain = model.batch_inference
    model.batch_inference = lambda self, sessions: sizes.append(len(sessions)) or plain(self, sessions)
    async with open_server(model, step_cost=0.05) as server:
        with trio.fail_after(60):
            async with server.connect() as one, server.connect() as two:
                assert ((await one.take(10))[-1].data != (await two.take(10))[-1].data).any()
    assert max(sizes) == 2


async def test_a_file_that_is_no_picture_is_refused(recipe, autojump_clock):
    async with open_session(recipe("uploaded-picture").Pan, step_cost=0.01) as client:
        with pytest.raises(CommandError, match=r"notes\.txt is no picture"):
            await client.command("start_from", picture=await client.upload(b"hello", name="notes.txt"))
        png = io.BytesIO()
        Image.new("RGB", (8, 8), (9, 8, 7)).save(png, "PNG")
        await client.command("start_from", picture=await client.upload(png.getvalue(), name="a.png"))
        assert (await client.take_after()).data[0, 0].tolist() == [9, 8, 7]


def test_the_index_has_every_recipe():
    linked = {name for name in (COOKBOOK / "index.md").read_text(encoding="utf-8").split("](") if ".md)" in name}
    assert {name.partition(")")[0] for name in linked} >= {
        page.name for page in Path(COOKBOOK).glob("*.md") if page.name != "index.md"
    }


def test_a_task_takes_at_most_three_blocks():
    """Those above "See"; what follows is another way. A task within a page begins with its name in bold."""
    for page in COOKBOOK.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        ends = [number for number, line in enumerate(lines, 1) if line.startswith(("**See.**", "**Hear.**", "**Record**"))]
        copied = [block for block in blocks_of(page) if block.language != "text" and block.line < min(ends, default=999)]
        assert len(copied) <= 3, page
