"""Viewers that leave, change their codec or lie at the worst moment leave nothing behind and disturb no other viewer."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.models import Picture
from tests.support.rendition_stage import FULL, INTERVAL, Stage, count, quality

from reactor_trio.client.session_view import internals
from reactor_trio.connection import ConnectRequest
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import open_server


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("encoding_time", [0.05, 0.2])
async def test_a_viewer_that_leaves_at_any_moment(
    stage: Stage, autojump_clock: Any, moment: float, encoding_time: float
) -> None:
    stage.encoding_time = encoding_time
    one, other = stage.watch(), stage.watch()
    stage._nursery.start_soon(stage.show, 8)
    await trio.sleep(2 * INTERVAL + moment)
    await stage.leave(one)
    left, replaced = stage.drops.get("client_left", 0), stage.drops.get("superseded", 0)
    assert len(one.packets) + left + replaced // 2 == 3  # what it was offered; what was replaced was replaced for both
    await trio.sleep(3)
    assert other.values[-1] == 7
    assert other.keyframes == [0]
    await stage.leave(other)
    assert stage.renditions.leftovers() == []


async def test_every_frame_of_a_viewer_that_left_is_accounted_for(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.2
    one, other = stage.watch(), stage.watch()
    other.open_window(False)
    stage._nursery.start_soon(stage.show, 2)
    await trio.sleep(INTERVAL + 0.02)  # the first is being encoded by the task of the one, the second waits
    stage.viewers.remove(other)
    other.scope.cancel()
    other.sender.close()
    assert stage.drops == {"client_left": 2}
    await trio.sleep(1)
    assert one.values == [0, 1]


async def test_with_real_worker_threads_an_encoder_is_closed_after_its_last_frame(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    stage = Stage(nursery, monkeypatch)
    began, go_on = trio.Event(), trio.Event()

    async def work(function: Any, argument: Any, /, limit: float) -> Any:
        def blocking() -> Any:
            trio.from_thread.run_sync(began.set)
            trio.from_thread.run(go_on.wait)
            return function(argument)

        with trio.CancelScope(shield=True):  # a thread is not abandoned
            return await trio.to_thread.run_sync(blocking)

    stage.codec_pool._worker = work
    viewer = stage.watch()
    nursery.start_soon(stage.show)
    await began.wait()
    viewer.scope.cancel()
    stage.viewers.remove(viewer)
    viewer.sender.close()
    assert not stage.encoders[0].closed  # it encodes
    go_on.set()
    await trio.testing.wait_all_tasks_blocked(0.01)
    with trio.fail_after(120):
        while stage.renditions.leftovers():
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert stage.encoders[0].frames == [0]
    assert stage.drops == {"client_left": 1}


async def test_a_viewer_that_leaves_while_a_better_rendition_expects_it(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch(), stage.watch()
    await stage.show(2)
    bad.link.quality = quality(FULL / 3)
    await stage.show(3)
    assert stage.count() == 2
    good.sender.request_keyframe(0)
    await stage.show()
    bad.link.quality = quality(FULL)
    bad.sender.offer(*stage._last)  # type: ignore[misc]
    stage.encoding_time = 0.05
    await trio.testing.wait_all_tasks_blocked()
    await stage.leave(bad)
    await stage.show(6)
    assert good.values == list(range(12))
    assert good.rendition is not None
    assert good.rendition.members == [good.down_track]
    await stage.leave(good)
    assert stage.renditions.leftovers() == []


async def test_a_viewer_that_changes_codecs_while_a_better_rendition_expects_it(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch(), stage.watch()
    await stage.show(2)
    bad.link.quality = quality(FULL / 3)
    await stage.show(3)
    good.sender.request_keyframe(0)
    await stage.show()
    bad.link.quality = quality(FULL)
    await stage.show()  # it is expected with the next keyframe, half a second after the last one
    assert bad.down_track in good.rendition._expected  # type: ignore[union-attr]
    bad.sender.choose_video(["vp8"])
    await stage.show(8)
    assert [packet[2] for packet in bad.packets][-8:] == [2] * 8
    assert bad.rendition is not None
    assert bad.rendition.codec == "vp8"
    assert good.rendition is not None
    assert good.rendition.members == [good.down_track]


async def test_a_newcomer_that_changes_its_codec_while_its_first_picture_is_encoded(
    stage: Stage, autojump_clock: Any
) -> None:
    """The picture in the old codec does not reach it."""
    first, other = stage.watch("jpeg"), stage.watch("vp8")
    await stage.show(2)
    await trio.sleep(1)
    stage.encoding_time = 0.05
    newcomer = stage.watch("jpeg")
    await trio.sleep(0.02)
    newcomer.sender.choose_video(["vp8"])
    await trio.sleep(1)
    await stage.show(3)
    assert {packet[2] for packet in newcomer.packets} == {other.packets[0][2]}
    assert newcomer.packets[0][1]
    assert first.values == [0, 1, 2, 3, 4]


async def test_a_viewer_that_changes_its_codec_a_thousand_times(stage: Stage, autojump_clock: Any) -> None:
    other, restless = stage.watch("h264"), stage.watch("h264")
    await stage.show(2)
    for turn in range(1000):
        restless.sender.choose_video([("h264", "vp8", "jpeg", "none")[turn % 4]])
        if turn % 100 == 0:
            await stage.show()
    restless.sender.choose_video(["h264"])
    await stage.show(4)
    assert other.values == list(range(16))
    assert len(other.keyframes) <= 5  # one each half second, whatever it does
    assert restless.values[-1] == 15
    assert [encoder.closed for encoder in stage.encoders].count(False) == 1
    assert stage.count() == 1


async def test_the_same_choice_of_video_again_changes_nothing(stage: Stage, autojump_clock: Any) -> None:
    viewer, other = stage.watch("h264"), stage.watch("h264")
    await stage.show(2)
    for _ in range(20):
        viewer.sender.choose_video(["h264"])
        await stage.show()
    assert viewer.keyframes == other.keyframes == [0]
    assert len(stage.encoders) == 1


async def test_intra_only_pictures_are_sent_again_at_most_each_half_second(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("jpeg")
    await stage.show(2)
    await trio.sleep(1)
    began = trio.current_time() - stage.began
    for _ in range(100):
        viewer.sender.request_keyframe(0)
        viewer.sender.request_keyframe(0)
        await trio.sleep(0.02)
    again = [at - began for at, *_ in viewer.packets[2:]]
    assert again == [pytest.approx(at) for at in (0.0, 0.5, 1.0, 1.5, 2.0)]
    assert stage.drops == {}


async def test_requests_while_the_window_is_shut_do_not_pile_up(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("jpeg")
    await stage.show(2)
    viewer.open_window(False)
    for _ in range(1000):
        viewer.sender.request_keyframe(0)
    assert viewer.rendition is not None
    assert len(viewer.rendition._newcomers) == 1
    viewer.open_window(True)
    await trio.sleep(1)
    assert viewer.values == [0, 1, 1]


async def test_a_viewer_too_slow_for_any_rendition_costs_the_others_no_keyframes(stage: Stage, autojump_clock: Any) -> None:
    viewers = [stage.watch() for _ in range(5)]
    await stage.show()
    for number, viewer in enumerate(viewers):
        viewer.link.quality = quality(FULL / 3 ** min(number, 2))
        await stage.show()
    assert stage.count() == 3
    await stage.show(8)  # what was asked for by those that moved is over
    before = len(viewers[3].keyframes)
    viewers[4].link.quality = quality(FULL / 100)
    await stage.show(24)
    assert len(viewers[3].keyframes) == before
    assert viewers[0].values == list(range(38))
    assert viewers[3].values[-31:] == list(range(7, 38))


# ---- before the welcome ---------------------------------------------------------------------------------------------


class Counting(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        number = 0
        while True:
            yield Picture(main_video=np.full((8, 8, 3), number % 256, np.uint8))
            number += 1


NUMBERS = (0, -1, 7, 2**31, 2**63, 2**64, 10**300, -(10**300), 1.5, 1e308, "1", None, True, [1], {})


async def test_feedback_with_any_numbers_changes_nothing(autojump_clock: Any) -> None:
    """Malformed feedback gets an error; feedback about a frame that was not sent is ignored."""
    async with open_server(Counting, step_cost=0.01) as server:
        async with server.connect(feedback=True) as client, server.connect(role="viewer") as other:
            await client.take(3)
            rng = random.Random(4)
            for _ in range(400):
                data = {key: rng.choice(NUMBERS) for key in ("track", "seq", "held_us")}
                kind = rng.choice(["reactor.feedback", "reactor.keyframe"])
                await internals(client).connection.transport.send(json.dumps({"type": kind, "data": data}))
            frames = await client.take(10)
            assert [later.seq - frames[0].seq for later in frames] == list(range(10))
            assert not other.ended
            (link,) = [
                down_track.link
                for o in server.runtime.session_manager.clients
                if o.number == 1
                for down_track in o._down_tracks.values()
            ]
            assert link.in_flight <= 2


async def test_a_choice_of_video_before_the_welcome_is_kept(autojump_clock: Any) -> None:
    async with open_server(Counting, step_cost=0.01) as server:
        sender = server.runtime.session_manager.sender(ConnectRequest("viewer", ("raw", "jpeg")))
        sender.request_keyframe(0)
        sender.acknowledge(0, 3, 0.1)
        sender.choose_video(["jpeg"])
        async with server.connect():
            sender.join(server.served[0].renditions)
            (info,) = sender.track_infos
            assert info.codec == "jpeg"
            server.runtime.session_manager.leave(sender)


async def test_a_client_that_wants_no_video_before_the_welcome_has_no_encoder(autojump_clock: Any) -> None:
    async with open_server(Counting, step_cost=0.01) as server:
        sender = server.runtime.session_manager.sender(ConnectRequest("viewer", ("raw",)))
        sender.choose_video(["none"])
        async with server.connect(video=["jpeg"]):
            renditions = server.served[0].renditions
            sender.join(renditions)
            assert count(renditions) == 1
            sender.choose_video(["raw"])
            assert count(renditions) == 2
            server.runtime.session_manager.leave(sender)


async def test_the_kit_finds_an_encoder_that_was_left_open(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_trio.connection.rendition.Rendition._close_if_alone", lambda self: None)
    with pytest.raises(AssertionError, match="encoder none of main_video"):
        async with open_server(Counting, step_cost=0.01) as server, server.connect() as client:
            await client.take(2)


# ---- two from the first frame on ------------------------------------------------------------------------------------


async def test_two_clients_share_one_encoder_from_the_first_frame_on(autojump_clock: Any) -> None:
    """The first frame says what full quality is, to both at once."""
    async with open_server(Counting, step_cost=0.01) as server, server.connect(video=["jpeg"]) as client:
        async with server.connect(video=["jpeg"], role="viewer") as viewer:
            renditions = server.served[0].renditions
            assert [frame.seq for frame in await viewer.take(3)] == [0, 1, 2]
            assert len(renditions._renditions["main_video"]) == 1
        assert [frame.seq for frame in await client.take(20)] == list(range(20))


async def test_a_move_to_another_intra_only_rendition_gives_no_frame_twice(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch("jpeg"), stage.watch("jpeg")
    await stage.show(2)
    bad.link.quality = quality(FULL / 3)
    await stage.show(3)
    assert stage.count() == 2
    bad.link.quality = quality(FULL)
    await stage.show(3)
    assert stage.count() == 1
    assert good.values == bad.values == list(range(8))


async def test_a_newcomer_that_leaves_takes_nothing_from_the_others_nor_gives_them_anything(
    stage: Stage, autojump_clock: Any
) -> None:
    first = stage.watch("jpeg")
    await stage.show(2)
    await trio.sleep(1)
    stage.encoding_time = 0.05
    newcomer = stage.watch("jpeg")
    await trio.sleep(0.02)  # its task encodes the picture that stands, for it alone
    await stage.leave(newcomer)
    await trio.sleep(1)
    assert first.values == [0, 1]
    assert first.rendition is not None
    assert first.rendition._newcomers == {}
