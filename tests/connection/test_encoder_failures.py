"""Encoders that fail, at any frame or when they are opened: the next codec goes on, or the client gets a goodbye."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.rendition_stage import FULL, Stage, quality

from reactor_trio.connection import connect_request as request
from reactor_trio.connection import rendition
from reactor_trio.connection import rendition_set as renditions
from reactor_trio.connection import sound_queue as sound
from reactor_trio.errors import ProtocolError, SessionEnded
from reactor_trio.interface import Audio, Output, ReactorPipeline, Video
from reactor_trio.media import Encoded
from reactor_trio.media.encoders import PcmEncoder, RawEncoder
from reactor_trio.testing import open_server


async def test_an_encoder_that_fails_gives_way_to_the_next_codec(
    stage: Stage, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage.broken = {"h264": 2}
    viewer = stage.watch("h264", "vp8", "jpeg")
    await stage.show(4)
    assert viewer.packets == [(0.0, True, 0, 0), (0.125, False, 0, 1), (0.25, True, 1, 2), (0.375, False, 1, 3)]
    assert viewer.codecs == ["h264", "vp8"]
    assert stage.drops == {}  # the frame that failed is encoded by the next one
    assert [encoder.closed for encoder in stage.encoders] == [True, False]
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == (
        "main_video: the h264 encoder (of the test) failed and is not used again in this session: "
        "RuntimeError: a bitstream that is none"
    )


async def test_each_viewer_goes_on_with_its_own_next_codec_and_they_share_again(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": 2}
    one, two, three = stage.watch("h264", "vp8"), stage.watch("h264", "jpeg"), stage.watch("h264", "vp8")
    other = stage.watch("vp8")
    await stage.show(5)
    assert [encoder.codec for encoder in stage.encoders] == ["h264", "vp8", "jpeg"]
    for viewer in (one, two, three):
        assert viewer.values == [0, 1, 2, 3, 4]
        assert viewer.packets[2][1]
    assert set(other.values) == {0, 1, 2, 3, 4}
    assert [viewer.codecs[-1] for viewer in (one, two, three, other)] == ["vp8", "jpeg", "vp8", "vp8"]


async def test_a_codec_that_failed_is_not_tried_again(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": 1}
    viewer = stage.watch("h264", "vp8")
    await stage.show(2)
    newcomer = stage.watch("h264", "vp8")
    await stage.show(2)
    assert newcomer.sender.track_infos[0].codec == "vp8"
    with pytest.raises(ProtocolError, match="encodes none of h264 for"):
        viewer.sender.choose_video(["h264"])
    viewer.sender.choose_video(["h264", "jpeg"])
    await trio.testing.wait_all_tasks_blocked()
    await stage.show(2)
    assert [encoder.codec for encoder in stage.encoders] == ["h264", "vp8", "jpeg"]
    assert viewer.values == [0, 1, 2, 3, 3, 4, 5]


async def test_an_encoder_that_cannot_be_opened(stage: Stage, autojump_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    stage.broken = {"h264": -1}
    viewer = stage.watch("h264", "vp8")
    await stage.show(2)
    assert viewer.packets == [(0.0, True, 0, 0), (0.125, False, 0, 1)]
    assert viewer.codecs == ["vp8"]
    assert caplog.text.count("the h264 encoder (not opened) failed") == 1


async def test_a_viewer_without_another_codec_gets_a_goodbye(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": 2}
    poor, rich = stage.watch("h264"), stage.watch("h264", "jpeg")
    await stage.show(4)
    assert poor.values == [0, 1]
    assert poor.texts[-1]["type"] == "reactor.bye"
    assert poor.texts[-1]["data"] == {
        "reason": "replica_failed", "message": "the server can encode none of the codecs that this client decodes"
    }  # fmt: skip
    assert poor.sender.end_reason == "replica_failed"
    assert rich.values == [0, 1, 2, 3]
    assert stage.drops == {"encoder_failed": 1}


async def test_a_viewer_gets_replica_failed_when_no_encoder_works(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": -1}
    viewer = stage.watch("h264")
    await stage.show()
    assert [text["data"]["reason"] for text in viewer.texts] == ["replica_failed"]
    assert viewer.packets == []


async def test_the_frame_that_failed_is_dropped_if_a_newer_one_waits(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": 1}
    viewer, other = stage.watch("h264", "vp8"), stage.watch("h264", "vp8")
    await stage.show()
    stage.encoding_time = 0.15  # longer than an interval
    await stage.show(2)
    await trio.sleep(1)
    assert viewer.values == other.values == [0, 2]
    assert stage.drops == {"encoder_failed": 2}  # one for each


async def test_the_next_codec_encodes_the_standing_picture(stage: Stage, autojump_clock: Any) -> None:
    stage.broken = {"h264": 1}
    viewer = stage.watch("h264", "vp8")
    await stage.show()
    await trio.sleep(3)
    newcomer = stage.watch("h264", "vp8")
    await trio.sleep(1)
    assert newcomer.packets == [(3.125, True, 1, 0)]
    assert viewer.packets == [(0.0, True, 0, 0), (3.125, True, 1, 0)]
    assert stage.drops == {}


async def test_a_lower_rendition_that_cannot_be_opened_leaves_the_upper_one_alone(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch("h264"), stage.watch("h264")
    await stage.show(2)
    stage.broken = {"h264": -1}
    bad.link.quality = quality(FULL / 3)
    await stage.show(8)
    assert good.values == bad.values == list(range(10))
    assert good.keyframes == bad.keyframes == [0]
    assert bad.sender.end_reason is None


async def test_an_encoder_that_fails_after_its_viewers_left(stage: Stage, autojump_clock: Any) -> None:
    stage.broken, stage.encoding_time = {"h264": 0}, 0.05
    viewer, other = stage.watch("h264"), stage.watch("h264")
    other.open_window(False)
    stage._nursery.start_soon(stage.show)
    await trio.sleep(0.02)  # the task of the first encodes
    viewer.sender.choose_video(["none"])
    other.sender.choose_video(["none"])
    await trio.sleep(1)
    assert stage.encoders[0].closed
    assert stage.renditions.leftovers() == []
    assert viewer.sender.end_reason is other.sender.end_reason is None


async def test_an_encoder_whose_closing_fails(
    stage: Stage, autojump_clock: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = stage.watch("h264")
    await stage.show()

    def close() -> None:
        raise OSError("no more")

    monkeypatch.setattr(stage.encoders[0], "close", close)
    await stage.leave(viewer)
    assert "closing the h264 encoder of the test failed" in caplog.text
    assert stage.renditions.leftovers() == []


# ---- in a server ----------------------------------------------------------------------------------------------------


class SoundAndPicture(Output):
    main_video: Video
    main_audio: Audio


class Film(ReactorPipeline):
    fps = 10

    def inference(self):
        number = 0
        while True:
            picture = np.full((16, 16, 3), number, np.uint8)
            yield SoundAndPicture(main_video=picture, main_audio=np.full((1, 4800), number, np.int16))
            number += 1


class FailingRaw(RawEncoder):
    """Fails at its fifth frame."""

    def __init__(self) -> None:
        self._frames = 0

    def encode(self, frame: Any) -> Encoded:
        self._frames += 1
        if self._frames == 5:
            raise MemoryError("no room")
        return super().encode(frame)


@pytest.fixture
def failing_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = renditions.open_encoder
    monkeypatch.setattr(
        renditions, "open_encoder",
        lambda spec, codec, settings: FailingRaw() if codec == "raw" else opened(spec, codec, settings),
    )  # fmt: skip


async def test_a_client_sees_the_next_codec_without_a_gap(autojump_clock: Any, failing_raw: None) -> None:
    async with open_server(Film, step_cost=0.01) as server, server.connect(video=["raw", "jpeg"]) as client:
        frames = await client.take(10, "main_video")
        assert [frame.seq for frame in frames] == list(range(10))
        assert next(track.codec for track in client.tracks if track.name == "main_video") == "jpeg"
        assert server.runtime.metrics.drops() == {}


async def test_a_client_that_decodes_no_other_codec_gets_a_goodbye(autojump_clock: Any, failing_raw: None) -> None:
    async with open_server(Film, step_cost=0.01) as server:
        with pytest.raises(SessionEnded, match="replica_failed"):
            async with server.connect(video=["raw"]) as client:
                await client.take(10, "main_video")
        async with server.connect(video=["raw"]) as client:  # the next session has encoders of its own
            await client.take(3, "main_video")


class FailingPcm(PcmEncoder):
    """Fails at its third block."""

    def __init__(self) -> None:
        self._blocks = 0

    def encode(self, frame: Any) -> Encoded:
        self._blocks += 1
        if self._blocks == 3:
            raise OSError("the library is gone")
        return super().encode(frame)


async def test_sound_goes_on_with_the_next_codec(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = sound.open_encoder
    encoders: list[Any] = []

    def open_failing(spec: Any, codec: str, settings: Any) -> Any:
        encoder = FailingPcm() if not encoders else opened(spec, "pcm_s16le", settings)
        encoders.append(encoder)
        return encoder

    monkeypatch.setattr(sound, "open_encoder", open_failing)
    monkeypatch.setattr(request, "choose_audio_codecs", lambda wanted: ("the first", "pcm_s16le"))
    async with open_server(Film, step_cost=0.01) as server, server.connect(audio=["pcm_s16le"]) as client:
        blocks = await client.take(6, "main_audio")
        assert [int(block.data[0, 0]) for block in blocks] == list(range(6))
        assert server.runtime.metrics.drops() == {}
    assert len(encoders) == 2


async def test_sound_that_nothing_can_encode_ends_the_connection(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sound, "open_encoder", lambda spec, codec, settings: FailingPcm())
    async with open_server(Film, step_cost=0.01) as server:
        with pytest.raises(SessionEnded, match="replica_failed"):
            async with server.connect(audio=["pcm_s16le"]) as client:
                await client.take(6, "main_audio")
        assert server.runtime.metrics.drops()["lane", "encoder_failed"] == 1
    assert "main_audio: the pcm_s16le encoder (none) failed" in caplog.text


async def test_a_mistake_of_this_runtime_is_not_taken_for_one_of_the_encoder(
    stage: Stage, autojump_clock: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Exception] = []

    async def send(viewer: Any) -> None:
        try:
            await viewer.sender.send(viewer)
        except ValueError as error:
            raised.append(error)

    def no_head(*_fields: object) -> bytes:
        monkeypatch.undo()
        raise ValueError("no head can be made")

    monkeypatch.setattr(stage, "_send", send)
    viewer = stage.watch("h264", "vp8")
    monkeypatch.setattr(rendition, "packet_head", no_head)
    await stage.show()
    assert [str(error) for error in raised] == ["no head can be made"]
    assert [encoder.codec for encoder in stage.encoders] == ["h264"]
    assert viewer.sender.end_reason is None
    assert caplog.messages == []
