"""A down track: which packet its viewer can decode next, and when a packet waits in its queue."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import trio
from tests.support.rendition_stage import VIDEO, Stage, context

from reactor_trio.connection import ConnectRequest
from reactor_trio.connection.down_track import _NEXT, ChainEvent, DownTrack, DownTrackOwner
from reactor_trio.media.codec_pool import CodecPool


class _Owner(DownTrackOwner):
    """One whose task is always busy."""

    idle = False


def down_track() -> DownTrack:
    async def nowhere(function: Any, argument: Any, /, limit: float = 0) -> Any:
        raise AssertionError("nothing is encoded here")

    request, server = ConnectRequest("viewer", ("h264",)), context((VIDEO,), CodecPool(nowhere, 10))
    return DownTrack(0, VIDEO, request, server, _Owner())


def test_every_event_has_its_transitions() -> None:
    assert set(_NEXT) == set(get_args(ChainEvent))


def test_only_a_keyframe_lets_other_packets_follow() -> None:
    track = down_track()
    assert track.gated
    assert track.enter("offered")
    assert not track.enter("offered"), "it is the first one only once"
    assert track.gated
    track.enter("keyframe")
    assert not track.gated
    track.enter("dropped")
    assert track.gated


def test_a_track_that_was_late_asks_once() -> None:
    track = down_track()
    track.enter("keyframe")
    track.enter("late")
    assert track.late
    track.enter("dropped")
    assert track.late
    track.enter("asked")
    assert track.gated
    assert not track.late


def test_a_change_of_codec_restarts_the_track() -> None:
    track = down_track()
    track.enter("keyframe")
    track.enter("renewed")
    assert track.gated
    assert track.enter("offered")


async def test_the_packet_of_one_viewer_does_not_pass_through_its_queue(
    stage: Stage, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DownTrack, "put", None)
    viewer = stage.watch()
    await stage.show(4)
    assert viewer.values == [0, 1, 2, 3]


async def test_a_packet_waits_if_the_window_has_closed_while_it_was_encoded(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.05
    viewer = stage.watch()
    stage._nursery.start_soon(stage.show)
    await trio.sleep(0.02)
    viewer.open_window(False)
    await trio.sleep(0.1)
    assert (viewer.packets, len(viewer.down_track)) == ([], 1)
    viewer.open_window(True)
    await trio.sleep(0.1)
    assert viewer.packets == [(pytest.approx(0.12), True, 0, 0)]


async def test_messages_said_while_a_frame_is_encoded_go_first(stage: Stage, autojump_clock: Any) -> None:
    stage.encoding_time = 0.05
    viewer = stage.watch()
    stage._nursery.start_soon(stage.show)
    await trio.sleep(0.02)
    viewer.stall()
    viewer.sender.say("note", {})
    await trio.sleep(0.1)
    assert len(viewer.down_track) == 1, "it waits, and could still be replaced by a keyframe"
    viewer.resume()
    await trio.sleep(0.1)
    assert [text["type"] for text in viewer.texts] == ["note", "reactor.track"]
    assert viewer.values == [0]
