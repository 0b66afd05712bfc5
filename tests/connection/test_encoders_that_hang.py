"""Encoders and decoders that never return: their viewers and the server go on, and no one else touches the encoder."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

import msgspec
import numpy as np
import pytest
import simplejpeg
import trio
import trio.testing
from noted_drops import NotedDrops
from tests.support.rendition_stage import ChainEncoder, Stage, context

from reactor_trio.connection import sound_queue as sound
from reactor_trio.connection.media_receiver import MediaReceiver
from reactor_trio.connection.sound_queue import SoundTrack
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, InputDecoder, Overrun, Undecodable
from reactor_trio.media.codec_pool import MOST_LEFT, CodecPool, worker_threads
from reactor_trio.media.encoders import PcmEncoder
from reactor_trio.protocol import TrackInfo, packet_head

LIMIT = CodecSettings().timeout


async def never(function: Any, argument: Any, /, limit: float) -> Any:
    """A worker whose functions never return."""
    await trio.sleep(limit)
    raise Overrun


async def at_once(function: Any, argument: Any, /, limit: float) -> Any:
    """A worker whose functions take no time."""
    await trio.lowlevel.checkpoint()
    return function(argument)


async def let_hang(stage: Stage, seconds: float = LIMIT) -> None:
    """Let the encoder hang with the next frame, and not after the limit."""
    stage.encoding_time = math.inf
    stage._nursery.start_soon(stage.show)
    await trio.sleep(seconds / 2)
    stage.encoding_time = 0.0
    await trio.sleep(seconds)


async def test_an_encoder_that_hangs_gives_way_to_the_next_codec(
    stage: Stage, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    viewer, other = stage.watch("h264", "vp8"), stage.watch("h264", "jpeg")
    await stage.show(2)
    await let_hang(stage)
    assert viewer.packets == [(0.0, True, 0, 0), (0.125, False, 0, 1), (0.25 + LIMIT, True, 1, 2)]
    assert other.packets == [(0.0, True, 0, 0), (0.125, False, 0, 1), (0.25 + LIMIT, True, 2, 2)]
    assert viewer.codecs == ["h264", "vp8"]
    assert stage.drops == {}  # the frame that hung is encoded by the next one
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == (
        "main_video: the h264 encoder (of the test) failed and is not used again in this session: Overrun: it has not "
        "returned in 10 s and is left behind; until it returns this server uses no other h264 encoder"
    )


async def test_an_encoder_that_hangs_is_left_alone_until_it_returns(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("h264", "vp8")
    await let_hang(stage)
    await stage.leave(viewer)
    assert stage.renditions.leftovers() == []
    assert [encoder.closed for encoder in stage.encoders] == [False, True]
    (go_on,) = stage.left_behind
    go_on()
    assert stage.encoders[0].frames == [0]
    assert stage.encoders[0].closed


async def test_a_frame_whose_encoder_hung_is_dropped_if_a_newer_frame_waits(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("h264", "vp8")
    stage.encoding_time = math.inf
    await stage.show(3)
    stage.encoding_time = 0.0
    await trio.sleep(LIMIT)
    assert viewer.packets == [(LIMIT, True, 1, 2)]
    assert stage.drops == {"superseded": 1, "encoder_failed": 1}


async def test_a_viewer_without_another_codec_gets_a_goodbye(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("h264")
    await let_hang(stage)
    assert viewer.sender.end_reason == "replica_failed"
    assert stage.drops == {"encoder_failed": 1}


async def test_a_codec_is_not_used_by_other_sessions_while_it_hangs(
    autojump_clock: Any, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, other = Stage(nursery, monkeypatch), Stage(nursery, monkeypatch)
    other.renditions.context = msgspec.structs.replace(other.renditions.context, codec_pool=hung.codec_pool)
    there_before = other.watch("h264", "vp8")
    hung.watch("h264", "vp8")
    await let_hang(hung)
    newcomer = other.watch("vp8", "h264")
    assert other.renditions.usable("main_video", ["h264", "vp8"]) == ("vp8",)
    with pytest.raises(ProtocolError, match="encodes none of h264 for"):
        newcomer.sender.choose_video(["h264"])
    await other.show()
    assert (there_before.down_track.codec, newcomer.down_track.codec) == ("h264", "vp8")  # what works goes on
    await other.leave(there_before)
    await other.leave(newcomer)
    poor = other.watch("h264")
    await other.show()
    assert poor.sender.end_reason == "replica_failed"
    hung.left_behind[0]()
    assert other.renditions.usable("main_video", ["h264"]) == ("h264",)
    assert hung.renditions.usable("main_video", ["h264"]) == ()  # in its own session it has failed
    again = other.watch("h264")
    await other.show()
    assert again.down_track.codec == "h264"
    assert len(again.packets) == 1


# ---- with real threads, in virtual time: it passes while they block -------------------------------------------------


class Blocked(ChainEncoder):
    """Returns when it is let go."""

    def __init__(self, codec: str, log: list[ChainEncoder]) -> None:
        super().__init__(codec, log)
        self.go_on, self.was_closed = threading.Event(), threading.Event()

    def encode(self, frame: Any) -> Encoded:
        assert self.go_on.wait(120)
        return super().encode(frame)

    def close(self) -> None:
        super().close()
        self.was_closed.set()


async def test_a_thread_that_hangs_is_left_behind_and_closes_what_it_held(
    stage: Stage, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.codec_pool._worker = worker_threads(1)
    blocked = Blocked("h264", stage.encoders)
    here = ChainEncoder("jpeg", stage.encoders)
    here.blocking = False  # type: ignore[misc]
    monkeypatch.setattr(stage, "open_encoder", {"h264": blocked, "jpeg": here}.__getitem__)
    viewer = stage.watch("h264", "jpeg")
    try:
        stage._nursery.start_soon(stage.show)
        await trio.sleep(LIMIT + 1)
        assert viewer.packets == [(LIMIT, True, 1, 0)]
        assert stage.codec_pool.hangs("encoder", "h264")
        await stage.leave(viewer)
        assert not blocked.closed
    finally:
        blocked.go_on.set()
    assert blocked.was_closed.wait(120)
    assert blocked.frames == [0]
    assert not stage.codec_pool.hangs("encoder", "h264")


async def test_the_place_of_a_thread_that_hangs_is_given_to_others(autojump_clock: Any) -> None:
    work, go_on = worker_threads(1), threading.Event()
    try:
        for _ in range(3):
            with pytest.raises(Overrun):
                await work(go_on.wait, 120, 10)
        assert trio.current_time() == 30
        assert await work(len, "ab") == 2
    finally:
        go_on.set()


async def test_a_cancelled_call_waits_for_its_thread_until_the_limit_at_most(autojump_clock: Any) -> None:
    work, go_on = worker_threads(1), threading.Event()
    try:
        with trio.move_on_after(1) as scope:
            with pytest.raises(Overrun):
                await work(go_on.wait, 120, 10)
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert trio.current_time() == 10
    finally:
        go_on.set()


async def test_a_wait_for_a_thread_does_not_count(autojump_clock: Any) -> None:
    work, go_on = worker_threads(1), threading.Event()
    overran: list[tuple[int, float]] = []

    async def overrun(number: int) -> None:
        with pytest.raises(Overrun):
            await work(go_on.wait, 120, 10)
        overran.append((number, trio.current_time()))

    try:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(overrun, number)
                await trio.testing.wait_all_tasks_blocked()
    finally:
        go_on.set()
    assert overran == [(0, 10), (1, 20), (2, 30)]


async def test_closing_leaves_the_loop_and_may_hang(autojump_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    go_on, began, closed_by = threading.Event(), threading.Event(), []

    class Closing(ChainEncoder):
        def close(self) -> None:
            closed_by.append(threading.current_thread())
            began.set()
            assert go_on.wait(120)

    codec_pool, encoder = CodecPool(worker_threads(1), 10), Closing("av1", [])
    try:
        async with codec_pool.closing():
            codec_pool.close(encoder)
            assert trio.current_time() == 0
        assert trio.current_time() == 10
        assert codec_pool.hangs("encoder", "av1")
    finally:
        go_on.set()
    assert began.wait(120)
    assert len(closed_by) == 1
    assert closed_by[0] is not threading.current_thread()
    assert caplog.messages[0].startswith("closing the av1 encoder (of the test): it has not returned in 10 s")


async def test_the_last_encoder_is_closed_although_the_server_is_cancelled() -> None:
    codec_pool, encoder = CodecPool(worker_threads(1), 120), ChainEncoder("av1", [])
    with trio.CancelScope() as scope:
        async with codec_pool.closing():
            codec_pool.close(encoder)
            scope.cancel()
    assert encoder.closed


# ---- sound, and what clients send -----------------------------------------------------------------------------------


async def test_sound_that_hangs_goes_on_with_the_next_codec(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Opus(PcmEncoder):
        codec = "opus"
        blocking = True

        def close(self) -> None:
            raise AssertionError("it encodes")

    changed: list[TrackInfo] = []
    spec = TrackSpec("voice", "audio", sample_rate=48_000)
    codec_pool = CodecPool(never, 10)
    monkeypatch.setattr(sound, "open_encoder", lambda spec, codec, settings: Opus() if codec == "opus" else PcmEncoder())
    track = SoundTrack(0, spec, ("opus", "pcm_s16le"), context((spec,), codec_pool), changed.append, lambda: None)
    encoded = await track.encode(np.zeros((1, 4), np.int16))
    assert trio.current_time() == 10
    assert encoded is not None
    assert bytes(encoded.payload) == bytes(8)
    assert [info.codec for info in changed] == ["pcm_s16le"]
    other = SoundTrack(0, spec, ("opus", "pcm_s16le"), context((spec,), codec_pool), changed.append, lambda: None)
    assert other.info.codec == "pcm_s16le"


def packet(payload: bytes, **meta: Any) -> bytes:
    return packet_head(0, 0, 0, 0, None, 0, meta, memoryview(payload)) + payload


async def test_a_decoder_that_hangs_costs_its_codec_and_its_client_alone(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    work, go_on, returned = worker_threads(1), threading.Event(), threading.Event()
    noted = NotedDrops()
    said: list[dict[str, str]] = []
    got: list[Any] = []

    async def worker(function: Any, argument: Any, /, limit: float) -> Any:
        if trio.current_time() < 10:  # the first one hangs
            return await work(hang, (function, argument), limit)
        return await at_once(function, argument, limit=limit)

    def hang(job: tuple[Any, Any]) -> Any:
        assert go_on.wait(120)
        picture = job[0](job[1])
        returned.set()
        return picture

    spec = TrackSpec("camera", "video", "in")
    codec_pool = CodecPool(worker, 10)
    receiver = MediaReceiver(context((spec,), codec_pool, telemetry=noted), lambda _type, data: said.append(data))
    other = MediaReceiver(context((spec,), codec_pool), lambda _type, data: said.append(data))
    picture, first = np.zeros((2, 2, 3), np.uint8), receiver._decoders[0]
    jpeg = packet(simplejpeg.encode_jpeg(picture), codec="jpeg")
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receiver.run)
            for _ in range(2):
                receiver.take(jpeg, lambda *frame: got.append(frame))
            await trio.sleep(12)
            assert [data["message"].partition(": ")[2] for data in said] == [
                "track camera: it has not returned in 10 s and is left behind; until it returns this client uses no other "
                "jpeg decoder"
            ]
            assert receiver._decoders[0] is not first  # which its thread still works on
            receiver.take(packet(picture.tobytes(), codec="raw", width=2, height=2), lambda *frame: got.append(frame))
            receiver.take(jpeg, lambda *frame: got.append(frame))
            await trio.testing.wait_all_tasks_blocked()
            assert len(got) == 1
            assert said[-1]["message"].endswith("the decoder hangs at an earlier jpeg packet of yours; send another codec")
            assert noted.drops == [("input", "refused", 1)] * 3
            nursery.start_soon(other.run)
            other.take(jpeg, lambda *frame: got.append(frame))
            await trio.testing.wait_all_tasks_blocked()
            assert len(got) == 2
            go_on.set()
            assert returned.wait(120)
            receiver.take(jpeg, lambda *frame: got.append(frame))
            await trio.testing.wait_all_tasks_blocked()
            assert len(got) == 3
            nursery.cancel_scope.cancel()
    finally:
        go_on.set()
    assert caplog.text.count("camera: the jpeg decoder failed") == 1


@pytest.mark.parametrize("clients", [MOST_LEFT - 1, MOST_LEFT])
async def test_so_many_decoders_may_hang_and_no_more(autojump_clock: Any, clients: int) -> None:
    codec_pool, decoder = CodecPool(never, 10), InputDecoder(TrackSpec("camera", "video", "in"))
    jpeg, meta = memoryview(simplejpeg.encode_jpeg(np.zeros((2, 2, 3), np.uint8))), {"codec": "jpeg"}
    for _ in range(clients):
        with pytest.raises(Overrun):
            await codec_pool.decode(object(), decoder, meta, jpeg)
    codec_pool._worker = at_once
    if clients < MOST_LEFT:
        assert (await codec_pool.decode(object(), decoder, meta, jpeg)).shape == (2, 2, 3)
    else:
        with pytest.raises(Undecodable, match=r"^16 decoders of this server hang; send it later$"):
            await codec_pool.decode(object(), decoder, meta, jpeg)
