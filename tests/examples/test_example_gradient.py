"""`examples/gradient` in virtual time: the model of `reactor init`, and a tone."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

SMALL = ("width=64", "height=48")


@pytest.fixture
def open_gradient(example):
    manifest = example("gradient", *SMALL)
    return lambda **options: open_server(manifest.model, config=manifest.config, **options)


@pytest.mark.parametrize("thread", [False, True])
async def test_batches_of_four_are_shown_one_by_one_at_the_models_rate(autojump_clock, open_gradient, thread):
    async with open_gradient(step_cost=1.0, thread=thread) as server, server.connect() as client:
        frames = await client.take(8)
        assert [frame.pts for frame in frames] == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75]
        assert [frame.step for frame in frames] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert {frame.data.shape for frame in frames} == {(48, 64, 3)}
        assert not np.array_equal(frames[0].data, frames[7].data)


async def test_brightness_holds_from_the_next_step_and_for_this_session_only(autojump_clock, open_gradient):
    async with open_gradient(step_cost=1.0) as server:
        async with server.connect() as client:
            bright = (await client.take(4))[-1]
            await client.command("set_brightness", brightness=0.0)
            frames = await client.take(9)
            dark = next(frame for frame in frames if frame.command_id == 1)
            assert bright.data.any()
            assert not dark.data.any()
        async with server.connect() as client:
            assert (await client.take(1))[0].data.any()


async def test_a_brightness_out_of_bounds_is_refused_with_its_path(autojump_clock, open_gradient):
    async with open_gradient(step_cost=1.0) as server, server.connect() as client:
        with pytest.raises(CommandError, match=re.escape("Expected float <= 2.0 - at $.brightness")):
            await client.command("set_brightness", brightness=3.0)
        assert (await client.take(1))[0].data.any()


async def test_the_size_comes_from_the_configuration(autojump_clock, example):
    manifest = example("gradient")
    async with open_server(manifest.model, config={"width": 16, "height": 8}, step_cost=1.0) as server:
        async with server.connect() as client:
            assert (await client.take(1))[0].data.shape == (8, 16, 3)


async def test_there_is_no_sound_and_no_change_of_rate_until_a_tone_is_asked_for(autojump_clock, open_gradient):
    async with open_gradient(step_cost=0.2) as server, server.connect() as client:
        assert [(track.name, track.kind) for track in client.tracks] == [("main_video", "video"), ("main_audio", "audio")]
        await client.take(20)
        assert client.statistics().tracks["main_audio"].frames == 0
        await client.command("set_tone", tone=1.0)
        sounds = await client.take(8, "main_audio")
        assert [frame.data.shape for frame in sounds] == [(1, 2400)] * 8  # 20 pictures a second
        assert {round(later.pts - sooner.pts, 6) for sooner, later in pairwise(sounds)} == {0.05}


async def test_the_tone_follows_the_brightness_without_a_jump_and_ends_in_silence(autojump_clock, open_gradient):
    async with open_gradient(step_cost=0.2) as server, server.connect() as client:
        await client.command("set_tone", tone=1.0)
        await client.take(8, "main_audio")
        low = np.concatenate([frame.data[0] for frame in await client.take(20, "main_audio")])
        await client.command("set_brightness", brightness=2.0)
        glide = np.concatenate([frame.data[0] for frame in await client.take(16, "main_audio")])
        high = np.concatenate([frame.data[0] for frame in await client.take(20, "main_audio")])
        assert [pitch(low), pitch(high)] == [440, 880]
        jumps = np.abs(np.diff(np.concatenate([low, glide, high]).astype(int)))
        assert jumps.max() < 0.2 * 32767 * 2 * np.pi * 880 * 2 / 48_000
        await client.command("set_tone", tone=0.0)
        await trio.sleep(2)
        before = client.statistics().tracks
        await trio.sleep(2)
        after = client.statistics().tracks
        assert after["main_audio"].frames == before["main_audio"].frames
        assert after["main_video"].frames - before["main_video"].frames == 40


def pitch(samples):
    """The strongest frequency of a second of sound, in Hz."""
    return int(np.abs(np.fft.rfft(samples[:48_000])).argmax())
