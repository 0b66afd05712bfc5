"""What is in the files: every frame, in order, with its sound, also when something goes wrong in the middle."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import wave
from pathlib import Path

import av
import numpy as np
import pytest
import trio
from tests.support.offline_models import Counting, Failing, Picture, Sounding, picture

from reactor_trio.errors import ModelFailed, ReactorError
from reactor_trio.interface import ReactorPipeline
from reactor_trio.offline import render, render_to, write
from reactor_trio.offline.film_files import png

BITS = 8
PATH = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])


class Numbered(Counting):
    """Frames of 64x64 with their number in eight columns, black or white."""

    def inference(self):
        number = 0
        while True:
            yield numbered(number)
            number += 1


def numbered(number):
    bits = np.array([255 * (number >> bit & 1) for bit in range(BITS)], np.uint8)
    return np.broadcast_to(np.repeat(bits, 8)[None, :, None], (64, 64, 3))


def numbers(path):
    """The numbers in a film's pictures, and their times."""
    with av.open(str(path)) as film:
        read = [(frame.to_ndarray(format="rgb24"), frame.time) for frame in film.decode(video=0)]
    found = [sum(1 << bit for bit in range(BITS) if frame[32, 8 * bit + 4].mean() > 127) for frame, _ in read]
    return found, [round(time, 4) for _, time in read]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
def test_a_film_has_every_frame_once_and_in_order(tmp_path, suffix):
    summary = render_to(tmp_path / f"film{suffix}", Numbered, frames=150)
    found, times = numbers(tmp_path / f"film{suffix}")
    assert found == list(range(150))
    assert times == pytest.approx([n / 10 for n in range(150)], abs=0.001)
    assert (summary.bundles, summary.frames, round(summary.seconds, 6), summary.left_out) == (
        150, {"main_video": 150}, 15.0, {},
    )  # fmt: skip


def test_a_film_has_the_sound(tmp_path):
    render_to(tmp_path / "film.mp4", Sounding)
    with av.open(str(tmp_path / "film.mp4")) as film:
        samples = np.concatenate([frame.to_ndarray()[0] for frame in film.decode(audio=0)])
    assert abs(samples.size - 14400) <= 1024
    assert 0.15 < np.abs(samples[2000:12000]).mean() < 0.17  # a sine of 8000 of 32768


def test_pictures_need_no_pyav(tmp_path):
    """The base install has none; the pictures are checked with ours, in this process."""
    script = (
        "import sys; sys.modules['av'] = None\n"
        "from tests.support.offline_models import Sounding\n"
        "from reactor_trio.offline import render_to\n"
        "render_to(sys.argv[1], Sounding)\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "pictures")]
    done = subprocess.run(arguments, env=os.environ | {"PYTHONPATH": PATH}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "pictures").iterdir())) == 4
    with av.open(str(tmp_path / "pictures" / "main_video-000002.png")) as file:
        (frame,) = file.decode(video=0)
        assert np.array_equal(frame.to_ndarray(format="rgb24"), picture(160, 0))


def test_a_film_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("reactor_trio.recording.containers.find_spec", lambda name: None)
    with pytest.raises(ReactorError, match=r'film.mp4: recording needs PyAV, pip install "reactor-trio\[video\]"'):
        render_to(tmp_path / "film.mp4", Sounding)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (64, 48)])
def test_a_picture_of_any_size_and_layout_is_a_png(size):
    colours = np.random.default_rng(1).integers(0, 256, (*size, 6), np.uint8)[..., ::2]  # not contiguous
    with av.open(io.BytesIO(png(colours))) as file:
        (frame,) = file.decode(video=0)
    assert np.array_equal(frame.to_ndarray(format="rgb24"), colours)


def test_a_folder_has_the_pictures_to_the_bit_and_the_sound(tmp_path):
    summary = render_to(tmp_path / "pictures", Sounding)
    assert summary.files == (tmp_path / "pictures",)
    names = sorted(path.name for path in summary.files[0].iterdir())
    assert names == [*(f"main_video-{n:06}.png" for n in range(3)), "sound.wav"]
    with av.open(str(tmp_path / "pictures" / "main_video-000002.png")) as file:
        (frame,) = file.decode(video=0)
        assert np.array_equal(frame.to_ndarray(format="rgb24"), picture(160, 0))
    with wave.open(str(tmp_path / "pictures" / "sound.wav")) as sound:
        assert (sound.getframerate(), sound.getnframes(), sound.getnchannels()) == (48_000, 14_400, 1)


class Growing(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(0, 0)
        yield picture(0, 0, size=(48, 32))


def test_a_new_size_is_a_new_file(tmp_path):
    assert render_to(tmp_path / "film.mp4", Growing).files == (tmp_path / "film.mp4", tmp_path / "film-2.mp4")


async def test_a_failure_leaves_the_film_whole_up_to_there(tmp_path):
    with pytest.raises(ModelFailed, match="out of ideas"):
        async with render(Failing) as rendering:
            await write(rendering, tmp_path / "film.mp4")
    assert len(numbers_of_any(tmp_path / "film.mp4")) == 5


async def test_a_stop_leaves_the_film_whole_up_to_there(tmp_path):
    def stop_at_20(bundle):
        if bundle.step == 20:
            trio.from_thread.run_sync(rendering.stop)

    async with render(Numbered) as rendering:
        summary = await write(rendering, tmp_path / "film.mp4", on_bundle=stop_at_20)
    found, _ = numbers(tmp_path / "film.mp4")
    assert found == list(range(summary.bundles))
    assert 21 <= summary.bundles <= 20 + 8


def test_a_file_that_is_there_is_not_touched(tmp_path):
    (tmp_path / "film.mp4").write_text("mine")
    with pytest.raises(ReactorError, match="it exists already; choose another name"):
        render_to(tmp_path / "film.mp4", Counting, frames=1)
    assert (tmp_path / "film.mp4").read_text() == "mine"
    with pytest.raises(ReactorError, match=r"name a file that ends in \.mp4, \.mkv, \.webm"):
        render_to(tmp_path / "film.gif", Counting, frames=1)
    with pytest.raises(ReactorError, match=r"cannot write .*film\.mp4: No such file"):
        render_to(tmp_path / "none" / "film.mp4", Counting, frames=1)


def numbers_of_any(path):
    with av.open(str(path)) as film:
        return [frame.time for frame in film.decode(video=0)]
