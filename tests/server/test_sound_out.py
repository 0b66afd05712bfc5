"""Sound on its way to the client: in time beside the pictures, dropped only when it must be, and counted then."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import trio

from reactor_trio.client.urls import session_url
from reactor_trio.connection.sound_queue import AUDIO_BLOCKS
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Audio, Output, ReactorPipeline, Video
from reactor_trio.testing import open_server


class Film(Output):
    picture: Video
    sound: Audio


class Talkie(ReactorPipeline):
    """30 pictures a second with 1600 samples each, of the same number."""

    output: Film

    def inference(self):
        number = 0
        while True:
            yield Film(picture=np.full((2, 2, 3), number % 256, np.uint8), sound=np.full((1, 1600), number, np.int16))
            number += 1


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
async def test_each_block_leaves_at_its_time_with_its_picture(autojump_clock, codec):
    async with open_server(Talkie, step_cost=0.01, websocket=True) as server:
        async with server.connect(video=[codec]) as client:
            sounds = await client.take(90, "sound")
            pictures = await client.take(90, "picture")
            assert [frame.seq for frame in sounds] == [frame.seq for frame in pictures] == list(range(90))
            assert [frame.pts for frame in sounds] == [frame.pts for frame in pictures]
            assert [frame.pts for frame in sounds] == pytest.approx([0.01 + n / 30 for n in range(90)], abs=2e-6)
            # Virtual time stands still while bytes are written: what arrives later than it is due waited for something else.
            began = sounds[0].received_at - sounds[0].pts
            assert max(abs(frame.received_at - began - frame.pts) for frame in sounds) < 2e-6
            assert [int(frame.data[0, 0]) for frame in sounds] == list(range(90))
        assert server.runtime.metrics.drops() == {}


async def test_a_client_that_stalls_for_a_while_misses_pictures_but_no_sound(autojump_clock):
    async with open_server(Talkie, step_cost=0.01) as server, server.connect() as client:
        await client.take(3, "sound")
        client.stall()
        await trio.sleep(4)
        client.resume()
        sounds = await client.take(150, "sound")
        assert [frame.seq for frame in sounds] == list(range(3, 153))
        assert server.runtime.metrics.drops().keys() == {("lane", "superseded")}


async def test_what_is_stalled_for_long_loses_its_oldest_sound_and_every_block_is_counted(autojump_clock):
    async with open_server(Talkie, step_cost=0.01) as server, server.connect() as client:
        await client.take(3, "sound")
        client.stall()
        await trio.sleep(10)
        client.resume()
        seqs = [frame.seq for frame in await client.take(300, "sound")]
        gaps = [later - sooner - 1 for sooner, later in pairwise(seqs)]
        assert seqs == sorted(seqs)
        assert [gap for gap in gaps if gap] == [server.runtime.metrics.drops()["lane", "audio_overflow"]]
        assert sum(gaps) in range(300 - AUDIO_BLOCKS - 10, 300 - AUDIO_BLOCKS + 1)


async def test_a_client_without_sound_is_told_of_none_and_sent_none(autojump_clock, monkeypatch):
    async with open_server(Talkie, step_cost=0.01) as server:
        monkeypatch.setattr("reactor_trio.testing.memory_server.session_url", without_sound)
        async with server.connect() as client:
            assert [(track.index, track.name) for track in client.tracks] == [(0, "picture")]
            await client.take(60)
            value = server.runtime.metrics.registry.get_sample_value
            frames = value("reactor_frames_sent_total")
            assert frames in (60, 61)
            assert value("reactor_media_bytes_sent_total") < frames * 60
            assert server.runtime.metrics.drops() == {}


async def test_a_codec_for_sound_that_is_not_there_is_refused(autojump_clock, monkeypatch):
    monkeypatch.setattr("reactor_trio.testing.memory_server.session_url", lambda url, **query: f"{url}?audio=mp3")
    async with open_server(Talkie, step_cost=0.01) as server:
        with pytest.raises(ConnectionRefused, match="audio: this server encodes opus, pcm_s16le, not mp3"):
            async with server.connect():
                pass


def without_sound(url, **query):
    return session_url(f"{url}?audio=none", **query)
