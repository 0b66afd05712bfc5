"""Viewers that share encoders: which one encodes, which are gated, which move, and what a newcomer gets, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from tests.support import rendition_stage
from tests.support.rendition_stage import FULL, INTERVAL, Stage, quality
from trio.testing import MockClock

from reactor_trio.connection import rendition, rendition_set
from reactor_trio.pacing import Quality

# ---- who encodes ----------------------------------------------------------------------------------------------------


async def test_one_viewer_gets_every_frame_of_its_encoder(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show(4)
    assert viewer.packets == [(0.0, True, 0, 0), (0.125, False, 0, 1), (0.25, False, 0, 2), (0.375, False, 0, 3)]
    assert stage.drops == {}


async def test_one_viewer_drops_before_the_encoder(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.stall()
    await stage.show(3)  # the first is being written, the second is replaced by the third
    viewer.resume()
    await trio.testing.wait_all_tasks_blocked()
    await stage.show()
    assert viewer.values == stage.encoders[0].frames == [0, 1, 3, 4]
    assert viewer.keyframes == [0]
    assert stage.drops == {"superseded": 1}
    assert viewer.link.skips == 1


async def test_viewers_that_want_the_same_share_an_encoder(stage: Stage, autojump_clock: Any) -> None:
    viewers = [stage.watch() for _ in range(5)]
    await stage.show(4)
    assert len(stage.encoders) == 1
    assert stage.encoders[0].frames == [0, 1, 2, 3]
    assert all(viewer.values == [0, 1, 2, 3] for viewer in viewers)


async def test_each_codec_has_an_encoder_of_its_own(stage: Stage, autojump_clock: Any) -> None:
    one, other = stage.watch("h264"), stage.watch("jpeg")
    await stage.show(2)
    assert [encoder.codec for encoder in stage.encoders] == ["h264", "jpeg"]
    assert one.values == other.values == [0, 1]
    assert other.keyframes == [0, 1]


async def test_an_encoder_is_closed_when_its_last_viewer_leaves(stage: Stage, autojump_clock: Any) -> None:
    one, other = stage.watch(), stage.watch()
    await stage.show()
    await stage.leave(one)
    assert not stage.encoders[0].closed
    await stage.leave(other)
    assert stage.encoders[0].closed
    assert stage.count() == 0


async def test_a_viewer_that_leaves_takes_no_frame_from_the_others(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.05
    one, other = stage.watch(), stage.watch()
    await stage.show()
    stage.viewers.remove(one)
    one.scope.cancel()
    one.sender.close()
    await stage.show(2)
    assert other.values == [0, 1, 2]


async def test_a_frame_whose_encoding_was_cancelled_is_encoded_by_another(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.05
    one, other = stage.watch(), stage.watch()
    other.open_window(False)
    stage._nursery.start_soon(stage.show)
    await trio.sleep(0.02)  # the task of the first encodes
    assert stage.encoders[0].frames == []
    other.open_window(True)
    await stage.leave(one)
    await trio.sleep(0.2)
    assert other.packets == [(pytest.approx(0.07), True, 0, 0)]


# ---- a viewer that does not keep up ---------------------------------------------------------------------------------


async def test_a_stalled_viewer_costs_the_others_nothing(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch(), stage.watch()
    await stage.show()
    bad.stall()
    await stage.show(5)
    assert good.values == [0, 1, 2, 3, 4, 5]
    assert good.keyframes == [0]
    bad.resume()
    await trio.testing.wait_all_tasks_blocked()
    await stage.show(6)
    assert good.values == list(range(12))
    assert bad.values[:2] == [0, 1]  # the second was being written
    later = bad.packets[2:]
    assert later[0][1]  # the first after the gap stands alone
    assert [value for *_, value in later] == list(range(later[0][3], 12))
    assert sum(stage.drops.values()) == later[0][3] - 2


async def test_a_closed_window_lets_packets_wait_until_they_are_too_old(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch(), stage.watch()
    await stage.show()
    bad.open_window(False)
    await stage.show(2)
    bad.open_window(True)
    await stage.show(4)
    assert good.values == list(range(7))
    missing = [value for value in range(7) if value not in bad.values]
    assert missing[:2] == [1, 2]  # the older of the two was too old, and the newer refers to it
    assert bad.packets[1][1]


async def test_an_acknowledgement_that_opens_the_window_lets_the_picture_out_at_once(
    stage: Stage, autojump_clock: Any
) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.link.is_open = False
    await stage.show()
    await trio.sleep(0.5)
    assert viewer.values == [0]
    viewer.link.is_open = True
    viewer.sender.acknowledge(0, 0, None)
    await trio.sleep(0.25)
    assert viewer.packets == [(0.0, True, 0, 0), (0.75, False, 0, 1)]


async def test_the_queue_of_a_viewer_is_bounded(stage: Stage, autojump_clock: Any) -> None:
    stage.watch()
    bad = stage.watch()
    await stage.show()
    bad.stall()
    waited = []
    for _ in range(200):
        await stage.show()
        waited.append(len(bad.down_track))
    assert max(waited) <= 2, "those of the last 0.15 s, and the one that comes"
    bad.resume()
    await trio.testing.wait_all_tasks_blocked()
    await stage.show(6)
    assert bad.values[-1] == 206


async def test_a_viewer_whose_socket_is_stuck_costs_the_others_no_keyframes(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch(), stage.watch()
    await stage.show()
    bad.stall()
    await stage.show(40)
    assert good.keyframes == [0]
    good.sender.request_keyframe(0)  # whoever else asks for one helps it, too
    await stage.show(4)
    bad.resume()
    await trio.testing.wait_all_tasks_blocked()
    await stage.show(6)
    gap = bad.values.index(1) + 1
    assert bad.packets[gap][1], "the first after the gap stands alone"
    assert bad.values[gap:] == list(range(bad.values[gap], 51))
    assert bad.values[gap] > 40
    assert sum(stage.drops.values()) == bad.values[gap] - 2


async def test_a_viewer_of_intra_only_pictures_skips_to_the_newest(stage: Stage, autojump_clock: Any) -> None:
    good, bad = stage.watch("jpeg"), stage.watch("jpeg")
    await stage.show()
    bad.stall()
    await stage.show(4)
    bad.resume()
    await trio.testing.wait_all_tasks_blocked()
    await stage.show()
    assert good.values == [0, 1, 2, 3, 4, 5]
    assert bad.values == [0, 1, 4, 5]
    assert stage.drops == {"superseded": 2}


# ---- keyframes ------------------------------------------------------------------------------------------------------


async def test_keyframes_on_demand_have_a_floor_between_them(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    for _ in range(16):
        viewer.sender.request_keyframe(0)
        await stage.show()
    assert viewer.keyframes == [0, 4, 8, 12]  # half a second between two


async def test_a_keyframe_of_the_standing_picture(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show(8)
    await trio.sleep(3)
    viewer.sender.request_keyframe(0)
    viewer.sender.request_keyframe(0)
    await trio.sleep(3)
    assert viewer.packets[8:] == [(4.0, True, 0, 7)]


async def test_a_request_for_a_track_that_is_not_there_changes_nothing(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.sender.request_keyframe(7)
    viewer.sender.acknowledge(7, 0, None)
    await stage.show()
    assert viewer.keyframes == [0]


async def test_a_newcomer_among_moving_pictures_starts_with_a_keyframe(stage: Stage, autojump_clock: Any) -> None:
    first = stage.watch()
    await stage.show(2)
    second = stage.watch()
    await stage.show(2)
    assert len(stage.encoders) == 1
    assert second.packets[0][:2] == (0.25, True)  # of the picture that stood when it came
    assert second.values[-2:] == [2, 3]
    assert first.values[-2:] == [2, 3]


async def test_a_newcomer_does_not_wait_for_the_floor_of_others(stage: Stage, autojump_clock: Any) -> None:
    first = stage.watch()
    await stage.show(5)
    first.sender.request_keyframe(0)
    await stage.show()
    second = stage.watch()
    await stage.show()
    assert second.packets[0][0] - 0.75 <= rendition.NEWCOMER_FLOOR


async def test_a_newcomer_gets_the_standing_picture(stage: Stage, autojump_clock: Any) -> None:
    stage.watch()
    await stage.show(2)
    await trio.sleep(10)
    newcomer = stage.watch()
    await trio.sleep(1)
    assert newcomer.packets == [(10.25, True, 0, 1)]


async def test_a_newcomer_costs_viewers_of_intra_only_pictures_nothing(stage: Stage, autojump_clock: Any) -> None:
    first = stage.watch("jpeg")
    await stage.show(2)
    await trio.sleep(1)
    newcomers = [stage.watch("jpeg"), stage.watch("jpeg")]
    await trio.sleep(1)
    assert first.values == [0, 1]
    assert [newcomer.values for newcomer in newcomers] == [[1], [1]]


# ---- too old, too many ----------------------------------------------------------------------------------------------


async def test_a_frame_past_its_deadline_is_not_encoded(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.open_window(False)
    await stage.show(3)
    viewer.open_window(True)
    await trio.testing.wait_all_tasks_blocked()
    await stage.show()
    assert viewer.values == [0, 3, 4]


async def test_the_standing_picture_is_sent_however_late(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.open_window(False)
    await stage.show()
    await trio.sleep(5)
    viewer.open_window(True)
    await trio.sleep(1)
    assert viewer.packets == [(0.0, True, 0, 0), (5.25, False, 0, 1)]


async def test_a_late_frame_is_sent_if_no_newer_one_comes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    stage = Stage(nursery, monkeypatch, max_age=0.05)
    viewer = stage.watch()
    await stage.show()
    viewer.open_window(False)
    nursery.start_soon(stage.show)
    await trio.sleep(0.1)  # past the deadline of a frame that is shown for another 25 ms
    viewer.open_window(True)
    await trio.sleep(1)
    assert viewer.packets == [(0.0, True, 0, 0), (0.3125, False, 0, 1)]  # one and a half intervals after it was due


async def test_a_halved_frame_rate_thins_before_encoding(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    viewer.link.quality = quality(FULL, divisor=2)
    await stage.show(8)
    assert viewer.values == stage.encoders[0].frames == [0, 2, 4, 6]
    await trio.sleep(1)
    assert viewer.values == [0, 2, 4, 6, 7]  # the picture that stands is shown
    assert stage.drops == {"thinned": 3}
    assert [target.fps for target in stage.encoders[0].targets] == [4.0]


async def test_a_closed_window_lets_a_probe_out(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.open_window(False)
    viewer.link.probe_at = stage.began + 2.0
    await stage.show(8)
    assert viewer.values == [0]
    viewer.link.is_open = True  # as it is from that time on; nothing else wakes the task
    await trio.sleep(2)
    assert viewer.packets[1][0] == 2.0


# ---- quality --------------------------------------------------------------------------------------------------------


async def test_a_viewer_alone_takes_its_rendition_with_it(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch()
    await stage.show()
    viewer.link.quality = quality(FULL / 4, 1, 0.5)
    await stage.show()
    viewer.link.quality = quality(FULL)
    await stage.show()
    assert len(stage.encoders) == 1
    assert [(t.bitrate, t.scale) for t in stage.encoders[0].targets] == [(FULL, 1), (FULL / 4, 0.5), (FULL, 1)]


@pytest.mark.parametrize(
    ("bitrate", "fps", "scale", "again"),
    [(1, 1, 1, False), (1, 1, 0.5, True), (0.951, 1, 1, False), (0.949, 1, 1, True), (1.049, 1, 1, False),
     (1.051, 1, 1, True), (1, 0.901, 1, False), (1, 0.899, 1, True), (1, 1.099, 1, False), (1, 1.101, 1, True)],
)  # fmt: skip
async def test_an_encoder_is_configured_again_where_it_makes_a_difference(
    stage: Stage, autojump_clock: Any, monkeypatch: Any, bitrate: float, fps: float, scale: float, again: bool
) -> None:
    """Five percent of the bitrate, or ten of the frame rate; each rate control begins anew then."""
    viewer = stage.watch()
    viewer.link.quality = quality(FULL / 2)
    await stage.show()
    viewer.link.quality = quality(FULL / 2 * bitrate, 1, scale)
    monkeypatch.setattr(rendition_stage, "INTERVAL", INTERVAL / fps)
    await stage.show(2)
    assert len(stage.encoders) == 1
    assert len(stage.encoders[0].targets) == 1 + again


async def test_a_viewer_among_others_leaves_for_a_lower_rendition_and_comes_back(stage: Stage, autojump_clock: Any) -> None:
    good, other, bad = stage.watch(), stage.watch(), stage.watch()
    await stage.show(2)
    bad.link.quality = quality(FULL / 3)
    await stage.show(5)
    assert stage.count() == 2
    assert [packet[2] for packet in bad.packets] == [0, 0, 1, 1, 1, 1, 1]
    assert bad.packets[2][1]
    assert bad.values == list(range(7))
    bad.link.quality = quality(FULL)
    await stage.show(5)
    assert stage.count() == 1
    assert stage.encoders[1].closed
    assert bad.packets[-1][2] == 0
    for viewer in (good, other):
        assert viewer.values == list(range(12))
        assert len(viewer.keyframes) <= 2  # the second when the third came back
    assert {target.bitrate for target in stage.encoders[0].targets} == {FULL}


async def test_a_track_has_at_most_three_renditions_and_no_viewer_lowers_another(stage: Stage, autojump_clock: Any) -> None:
    viewers = [stage.watch() for _ in range(8)]
    await stage.show()
    for number, viewer in enumerate(viewers):
        viewer.link.quality = quality(FULL / 2**number)
        await stage.show()
    await stage.show(4)
    assert stage.count() == 3
    assert {target.bitrate for target in stage.encoders[0].targets} == {FULL}
    assert viewers[0].values == list(range(13))
    lowest = min(rendition.quality.share for rendition in stage.renditions._renditions["main_video"])
    assert all(viewer.rendition is not None for viewer in viewers)
    assert viewers[-1].rendition.quality.share == lowest  # type: ignore[union-attr]


async def test_a_fourth_codec_gives_way_to_one_that_is_encoded_already(stage: Stage, autojump_clock: Any) -> None:
    for codec in ("h264", "vp8", "vp9"):
        stage.watch(codec)
    flexible, stubborn = stage.watch("av1", "vp8"), stage.watch("av1")
    await stage.show(2)
    assert flexible.texts[0]["data"]["codec"] == "vp8"
    assert stubborn.texts[0]["data"]["codec"] == "av1"  # it decodes nothing else
    assert flexible.values[-1] == stubborn.values[-1] == 1


async def test_a_shared_rendition_rises_with_the_least_of_its_members(stage: Stage, autojump_clock: Any) -> None:
    one, other = stage.watch(), stage.watch()
    one.link.quality = other.link.quality = quality(FULL / 4)
    await stage.show(4)
    one.link.quality = quality(FULL / 3)
    other.link.quality = quality(FULL / 3.5)
    await stage.show(4)
    assert stage.count() == 1
    rendition = one.rendition
    assert rendition is not None
    assert rendition is other.rendition
    assert rendition.quality.share == pytest.approx(1 / 3.5)


# ---- another codec in mid-stream -----------------------------------------------------------------------------------------


async def test_the_cost_of_a_frame_grows_linearly_with_the_viewers(
    stage: Stage, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        stage.watch()
    await stage.show()
    compared: list[Quality] = []
    rank = rendition_set._rank
    monkeypatch.setattr(rendition_set, "_rank", lambda quality: (compared.append(quality), rank(quality))[1])
    await stage.show()
    assert len(compared) <= 2 * 20
    [rendition] = {*stage.renditions.placed.values()}
    rendition.quality = Quality(100_000, 30, share=0.1)  # all links carry more than it gives
    compared.clear()
    await stage.show()
    assert rendition.quality.share == 1
    assert len(compared) <= 2 * 20


async def test_a_viewer_may_change_its_codec(stage: Stage, autojump_clock: Any) -> None:
    viewer, other = stage.watch("h264"), stage.watch("h264")
    await stage.show(2)
    viewer.sender.choose_video(["vp8", "jpeg"])
    await trio.sleep(0.01)
    await stage.show(2)
    assert [text["data"]["codec"] for text in viewer.texts if text["type"] == "reactor.track"] == ["h264", "vp8"]
    assert [packet[1:] for packet in viewer.packets[2:]] == [(True, 1, 1), (False, 1, 2), (False, 1, 3)]
    assert other.values == [0, 1, 2, 3]
    assert other.keyframes == [0]


async def test_a_viewer_may_pause_its_video(stage: Stage, autojump_clock: Any) -> None:
    viewer = stage.watch("h264")
    await stage.show(2)
    viewer.sender.choose_video(["none"])
    assert stage.encoders[0].closed
    await stage.show(2)
    assert viewer.values == [0, 1]
    viewer.sender.choose_video(["h264"])
    await trio.sleep(0.1)
    await stage.show()
    assert [packet[1:] for packet in viewer.packets[2:]] == [(True, 1, 3), (False, 1, 4)]


# ---- where the time went --------------------------------------------------------------------------------------------


async def test_the_parts_of_the_time_from_a_command_to_its_picture(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.0625
    viewer = stage.watch()
    await stage.show()
    await stage.show(2, command=5, waited=0.5)
    assert stage.latencies == [("wait", 0.5), ("step", 0.25), ("queue", 0.0), ("encode", 0.0625)]
    viewer.sender.acknowledge(0, 2, 0.015625)
    viewer.sender.acknowledge(0, 2, 0.015625)
    after = 3 * INTERVAL - (INTERVAL + 0.0625)  # since the first frame of the command was sent
    assert stage.latencies[4:] == [
        ("network", after - 0.015625), ("decode", 0.015625), ("total", 0.5 + 0.25 + 0.0625 + after)
    ]  # fmt: skip
    assert viewer.link.acknowledgements == [2, 2]


async def test_each_packet_tells_the_parts_of_its_time_in_microseconds(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.1875  # the next frame waits for the encoder for half a frame's time
    viewer = stage.watch()
    await stage.show(command=5, waited=0.5)
    await stage.show()
    await trio.sleep(1)
    assert viewer.timings == [[500_000, 250_000, 0, 187_500], [None, 250_000, 62_500, 187_500]]


# ---- the choice of a rendition --------------------------------------------------------------------------------------


async def test_links_learn_of_another_size_and_another_codec(stage: Stage, autojump_clock: Any) -> None:
    one, other = stage.watch("h264", "vp8"), stage.watch("h264")
    await stage.show(2)
    stage.size = 64
    await stage.show(2)
    one.sender.choose_video(["vp8"])
    await stage.show()
    assert [description[2:] for description in one.link.descriptions] == [("h264", 2, 2), ("h264", 64, 64), ("vp8", 64, 64)]
    assert [description[2:] for description in other.link.descriptions] == [("h264", 2, 2), ("h264", 64, 64)]


async def test_two_renditions_that_have_become_alike_are_joined_and_stay_so(stage: Stage, autojump_clock: Any) -> None:
    one, other = stage.watch(), stage.watch()
    await stage.show(2)
    other.link.quality = quality(FULL / 3)
    await stage.show(6)
    assert stage.count() == 2
    one.link.quality = quality(FULL / 3)
    await stage.show(24)
    assert [encoder.closed for encoder in stage.encoders] == [False, True]
    assert one.values == list(range(32))
    assert sorted(set(other.values)) == list(range(32))  # the one it moved with may come twice, the second a keyframe
    assert len(one.keyframes) <= 2


async def test_a_viewer_that_cannot_have_its_own_rendition_keeps_its_codec(stage: Stage, autojump_clock: Any) -> None:
    for codec in ("h264", "vp8", "jpeg"):
        stage.watch(codec)
    slow = stage.watch("vp8", "h264")
    await stage.show(2)
    slow.link.quality = quality(FULL / 10)
    await stage.show(4)
    assert slow.down_track.codec == "vp8"
    assert slow.codecs == ["vp8"]


async def test_a_viewer_without_its_own_rendition_takes_the_best_below_it(stage: Stage, autojump_clock: Any) -> None:
    viewers = [stage.watch() for _ in range(4)]
    await stage.show()
    for viewer, part in zip(viewers[1:3], (4, 16), strict=True):
        viewer.link.quality = quality(FULL / part)
        await stage.show()
    viewers[3].link.quality = quality(FULL / 2)
    await stage.show(6)
    assert stage.count() == 3
    assert viewers[3].rendition is viewers[1].rendition
