"""Reactor's page on block emission: each code block exactly as on the page, and the page's promises about it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import trio
from tests.support.mission_pages import compose

from reactor_trio.testing import open_session

IMPORTS = """
import time

import numpy as np
import torch

from reactor_trio import VideoModel, command, get_ctx, model
"""
MODEL = """
@model(name="page-004")
class MyModel(VideoModel):
    def __init__(self, config):
        self.config = config
        self.prompt = None

    @command("set_prompt")
    def set_prompt(self, prompt: str):
        self.prompt = prompt

    @command("pause")
    def pause(self):
        self.prompt = None

    def has_input(self):
        return self.prompt is not None

    def generate_block(self):
        return np.full((12, 4, 4, 3), 9, np.uint8)

    def generate(self):
        if "torch" in self.config:
            return self.config.torch
        return np.full((12, 4, 4, 3), len(self.prompt or "abc"), np.uint8)

"""
METHOD = MODEL + "    <block>\n"
STATEMENTS = MODEL + """
    def start_session(self):
        frames = self.generate()
        <block>
        get_ctx().send({"frames": [int(frames_np.min()), int(frames_np.max()), *frames_np.shape]})
        while not get_ctx().should_stop():
            time.sleep(0.1)
"""


@pytest.fixture
def model_of(modules, request):
    return lambda template, **blocks: modules.load(
        f"mission_{request.node.originalname}", IMPORTS + compose(template, **blocks)
    ).MyModel


def gaps(frames):
    return np.diff([frame.pts for frame in frames])


async def test_block_1_blocks_until_should_stop(model_of, autojump_clock):
    async with open_session(model_of(METHOD, block=("004", 1)), step_cost=1.0) as client:
        frames = await client.take(36)
        assert [frame.data.shape for frame in frames] == [(4, 4, 3)] * 36
        # the second block says how fast the model is: 12 frames a second, from then on evenly
        assert gaps(frames[12:]) == pytest.approx(1 / 12, abs=2e-6)
        assert frames[0].pts == 1.0


async def test_block_2_from_minus_one_to_one(model_of, autojump_clock):
    video = torch.linspace(-1, 1, 3 * 12 * 6 * 10).reshape(1, 3, 12, 6, 10).to(torch.float16)
    expected = ((video.squeeze(0).permute(1, 2, 3, 0) + 1.0) * 127.5).clamp(0, 255).to(torch.uint8).numpy()
    async with open_session(model_of(STATEMENTS, block=("004", 2)), config={"torch": video}) as client:
        frames = await client.take(12)
        assert np.array_equal(np.stack([frame.data for frame in frames]), expected)
        assert (await client.next_message()).data == {"frames": [0, 255, 12, 6, 10, 3]}


async def test_block_3_from_zero_to_one(model_of, autojump_clock):
    frames = torch.rand(12, 6, 10, 3, generator=torch.Generator().manual_seed(1))
    expected = (frames * 255.0).clamp(0, 255).to(torch.uint8).numpy()
    template = STATEMENTS.replace("<block>", "<block>\n        get_ctx().emit_block(frames_np)")
    async with open_session(model_of(template, block=("004", 3)), config={"torch": frames}) as client:
        seen = await client.take(12)
        assert np.array_equal(np.stack([frame.data for frame in seen]), expected)


async def test_block_4_none_is_black(model_of, autojump_clock):
    template = STATEMENTS.replace("<block>", "frames_np = frames\n        get_ctx().emit_block(frames)\n        <block>")
    async with open_session(model_of(template, block=("004", 4))) as client:
        frames = await client.take(13)
        assert [int(frame.data.max()) for frame in frames] == [3] * 12 + [0]
        assert frames[-1].data.shape == (4, 4, 3)


@pytest.mark.parametrize("monitoring", ["as the page has it", "left out"])
async def test_block_5_a_deliberate_pause_does_not_slow_the_stream(modules, autojump_clock, monitoring):
    source = IMPORTS + compose(METHOD, block=("004", 5))
    if monitoring == "left out":  # then the runtime "interprets this as slow performance"
        for call in ("get_ctx().disable_monitoring()", "get_ctx().enable_monitoring()"):
            assert call in source
            source = source.replace(call, "pass")
    model_class = modules.load(f"mission_004_5_{monitoring[:2]}", source).MyModel
    async with open_session(model_class, step_cost=1.0) as client:
        await client.command("set_prompt", prompt="first")
        assert gaps((await client.take(36))[12:]) == pytest.approx(1 / 12, abs=2e-6)
        await client.command("pause")
        with trio.move_on_after(10):
            while True:
                await client.take(1)  # what was under way, then nothing
        await client.command("set_prompt", prompt="go on")
        (interval,) = gaps(await client.take(2))
        assert interval == pytest.approx(1 / 12, abs=2e-6) if monitoring == "as the page has it" else interval > 0.75


async def test_block_6_messages_beside_the_frames(model_of, autojump_clock):
    async with open_session(model_of(METHOD, block=("004", 6)), step_cost=1.0) as client:
        await client.take(24)
        messages = [await client.next_message() for _ in range(2)]
        assert [(m.type, m.data) for m in messages] == [
            ("progress", {"frames_generated": 12}),
            ("progress", {"frames_generated": 24}),
        ]
