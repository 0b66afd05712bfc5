"""A model whose sound comes with every n-th yield only is told once; one that makes a sound now and then is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reactor_trio.execution.sound_rhythm import SoundRhythm
from reactor_trio.interface import Audio, Output, ReactorPipeline, Video
from reactor_trio.testing import open_server


class Film(Output):
    picture: Video
    sound: Audio | None = None


class EveryThird(ReactorPipeline):
    output: Film

    def inference(self):
        samples = np.zeros((1, 1600), np.int16)
        for step in itertools.count():
            picture = np.zeros((4, 4, 3), np.uint8)
            yield Film(picture=picture, sound=samples) if step % 3 == 0 else Film(picture=picture)


class Always(ReactorPipeline):
    output: Film

    def inference(self):
        while True:
            yield Film(picture=np.zeros((4, 4, 3), np.uint8), sound=np.zeros((1, 1600), np.int16))


def told(caplog):
    return [record.getMessage() for record in caplog.records if "sound comes with" in record.getMessage()]


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["thread", "process"])
async def test_sound_with_every_third_frame_is_told_once(how, autojump_clock, caplog):
    async with open_server(EveryThird, **how) as server, server.connect() as client:
        await client.take(120)
    (line,) = told(caplog)
    assert line.startswith("track sound: sound comes with one yield of 3 only")
    assert line.endswith("sample_rate / fps of them (docs/reference/errors.md#sound-gaps)")


async def test_sound_with_every_frame_is_right(autojump_clock, caplog):
    async with open_server(Always) as server, server.connect() as client:
        await client.take(60)
    assert told(caplog) == []


def test_sound_now_and_then_is_no_rhythm(caplog):
    rhythm = SoundRhythm("sound")
    for distance in (3, 3, 3, 3, 4, 3, 3, 3, 3, 3, 3, 20, 3, 3, 50, 50, 50, 50, 50, 50, 50, 50, 50):
        for _ in range(distance - 1):
            rhythm.observe(False)
        rhythm.observe(True)
    assert told(caplog) == []
