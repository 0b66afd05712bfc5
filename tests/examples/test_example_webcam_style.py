"""`examples/webcam_style`: what each style does to a picture, and the camera's way through a session."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import trio

from reactor_trio.testing import open_session

STYLES = ["paint", "neon", "dream"]


@pytest.fixture
def style(example):
    return example("webcam_style", "height=48")


@pytest.fixture
def look(style):
    return style.model.__annotations__["state"]


@pytest.fixture
def model(style):
    made = style.model()
    made.load(style.config)
    return made


def scene(height: int = 48, width: int = 64) -> np.ndarray:
    """A bright disc on a dark ground, with noise."""
    y, x = np.mgrid[:height, :width]
    disc = np.hypot(y - height / 2, x - width / 2) < height / 3
    noise = np.random.default_rng(5).integers(0, 40, (height, width, 3))
    return (np.where(disc[..., None], (200, 150, 60), (20, 30, 60)) + noise).astype(np.uint8)


def test_without_style_or_strength_the_picture_is_the_cameras(model, look):
    for settings in (look(style="none"), look(style="neon", strength=0.0)):
        frames = model.stylize(scene(), settings)
        assert frames.dtype == torch.uint8
        assert np.array_equal(frames.numpy()[0], scene())


@pytest.mark.parametrize("style_name", STYLES)
def test_strength_leads_from_the_camera_to_the_style(model, look, style_name):
    distance = [
        np.abs(model.stylize(scene(), look(style=style_name, strength=strength)).numpy()[0].astype(float) - scene()).mean()
        for strength in (0.25, 0.5, 1.0)
    ]
    assert 1 < distance[0] < distance[1] < distance[2]


def test_paint_smooths_the_surfaces_and_keeps_the_edges(model, look):
    painted = model.stylize(scene(), look(style="paint")).numpy()[0].astype(float)
    inside, outside = painted[20:28, 28:36], painted[2:8, 2:8]
    assert inside.std(axis=(0, 1)).max() < 0.5 * scene()[20:28, 28:36].std(axis=(0, 1)).min()
    assert np.abs(np.diff(painted[24, :, 0])).max() > 80  # a blur of the same size would leave less than half of it
    assert inside[..., 0].mean() - outside[..., 0].mean() > 150


def test_neon_glows_at_edges_only(model, look):
    plain = np.where(scene()[..., :1] > 100, np.uint8(200), np.uint8(20)).repeat(3, axis=2)
    glowing = model.stylize(plain, look(style="neon", detail=1)).numpy()[0]
    assert glowing[24, 32].max() < 40
    assert glowing[2, 2].max() < 10
    assert glowing.max() > 150


def test_a_seed_is_a_network(model, look):
    one, again, other = (model.stylize(scene(), look(style="dream", seed=seed)).numpy() for seed in (3, 3, 4))
    assert np.array_equal(one, again)
    assert np.abs(one.astype(float) - other).mean() > 10


def test_a_large_picture_is_scaled_down_and_a_small_one_is_not(model, look):
    assert model.stylize(scene(96, 200), look()).shape == (1, 48, 100, 3)
    assert model.stylize(scene(30, 40), look()).shape == (1, 30, 40, 3)


@pytest.mark.parametrize("style_name", STYLES)
def test_odd_and_tiny_pictures(model, look, style_name):
    assert model.stylize(scene(31, 47), look(style=style_name)).shape == (1, 31, 47, 3)
    assert model.stylize(scene(4, 4), look(style=style_name, detail=8)).shape == (1, 4, 4, 3)


async def test_each_frame_of_the_camera_comes_back_styled(autojump_clock, style, model, look):
    async with open_session(style.model, config=style.config, step_cost=0.01) as client:
        await client.push("camera", scene())
        (painted,) = await client.take(1)
        assert np.array_equal(painted.data, model.stylize(scene(), look()).numpy()[0])
        await client.command("set_style", style="none")
        await trio.sleep(1)
        await client.push("camera", scene()[:, ::-1].copy())
        (plain,) = await client.take(1)
        assert np.array_equal(plain.data, scene()[:, ::-1])
        assert plain.seq == painted.seq + 1  # without a frame of the camera nothing is sent


async def test_commands_are_answered_while_the_camera_is_off(autojump_clock, style):
    async with open_session(style.model, config=style.config, step_cost=0.01) as client:
        with trio.fail_after(1):
            await client.command("set_style", style="neon")
            await client.command("key_space")
        await client.push("camera", scene())
        assert (await client.take(1))[0].command_id == 2
