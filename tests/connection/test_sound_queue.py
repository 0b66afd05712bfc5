"""A viewer's sound: its encoding is counted, and its encoders go with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from tests.support.rendition_stage import context

from reactor_trio.connection import sound_queue as sound
from reactor_trio.connection.outgoing_frames import DueFrame
from reactor_trio.connection.sound_queue import SoundQueue, SoundTrack
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Origin
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.media.encoders import PcmEncoder
from reactor_trio.telemetry import Telemetry

SPEC = TrackSpec("voice", "audio", sample_rate=48_000)


class Counts(Telemetry):
    def __init__(self) -> None:
        self.encodings: list[tuple[str, float]] = []

    def encoded(self, codec: str, seconds: float) -> None:
        self.encodings.append((codec, seconds))


class SlowPcm(PcmEncoder):
    blocking = True
    closed = False

    def close(self) -> None:
        self.closed = True


async def worker(function: Any, argument: Any, _limit: float) -> Any:
    await trio.sleep(0.02)
    return function(argument)


async def test_the_time_of_an_encoding_is_counted_and_the_encoder_goes_with_the_viewer(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, counts = SlowPcm(), Counts()
    monkeypatch.setattr(sound, "open_encoder", lambda *_: encoder)
    of_server = context((SPEC,), CodecPool(worker, 1.0), telemetry=counts)
    queue = SoundQueue(of_server)
    queue.tracks["voice"] = SoundTrack(0, SPEC, ("pcm_s16le",), of_server, lambda _info: None, lambda: None)
    await trio.sleep(5)
    queue.put("voice", DueFrame(np.zeros((1, 480), np.int16), 0, 0.0, 5.0, 0.01, Origin(0), 5.0))
    assert await queue.encode_next() is not None
    assert counts.encodings == [("pcm_s16le", pytest.approx(0.02))]
    queue.close()
    assert encoder.closed
