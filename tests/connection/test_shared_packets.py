"""One task encodes a frame and writes it to all viewers that take it at once; the others' own tasks send it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from tests.support.rendition_stage import INTERVAL, Stage

from reactor_trio.connection import client_sender


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[client_sender.ClientSender]:
    """The senders whose tasks looked for something to do, one entry for each time."""
    looked: list[client_sender.ClientSender] = []
    look = client_sender.ClientSender._track_with_packet

    def noting(sender: client_sender.ClientSender, now: float) -> Any:
        looked.append(sender)
        return look(sender, now)

    monkeypatch.setattr(client_sender.ClientSender, "_track_with_packet", noting)
    return looked


async def audience(stage: Stage, count: int) -> list[Any]:
    """So many viewers that have the same keyframe and sleep."""
    viewers = [stage.watch() for _ in range(count)]
    await trio.testing.wait_all_tasks_blocked()
    await stage.show(2)
    assert [viewer.values for viewer in viewers] == [[0, 1]] * count
    return viewers


async def test_one_task_wakes_for_a_frame_that_all_take(stage: Stage, autojump_clock: Any, woken: list[Any]) -> None:
    viewers = await audience(stage, 5)
    woken.clear()
    await stage.show(3)
    assert [viewer.values for viewer in viewers] == [[0, 1, 2, 3, 4]] * 5
    assert len(set(map(id, woken))) == 1, "the other four sleep on"
    assert stage.drops == {}


async def test_a_client_that_takes_nothing_gets_the_frame_later_and_delays_no_other(
    stage: Stage, autojump_clock: Any
) -> None:
    first, slow, last = await audience(stage, 3)
    slow.stall()
    await stage.show()
    assert (first.values, slow.values, last.values) == ([0, 1, 2], [0, 1], [0, 1, 2])
    slow.resume()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.values == [0, 1, 2]


async def test_a_begun_packet_is_finished_before_the_next_one(stage: Stage, autojump_clock: Any) -> None:
    first, slow, last = await audience(stage, 3)
    slow.begins = True
    slow.stall()
    await stage.show(2)
    assert (first.values, slow.values, last.values) == ([0, 1, 2, 3], [0, 1], [0, 1, 2, 3])
    slow.resume()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.values == [0, 1, 2, 3]
    assert stage.drops == {}


async def test_the_task_finishes_a_begun_packet_without_another_event(stage: Stage, autojump_clock: Any) -> None:
    _, slow = await audience(stage, 2)
    slow.begins = True
    slow.stall()
    await stage.show()
    slow.resume()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.values == [0, 1, 2]


async def test_a_viewer_that_leaves_amid_a_packet_has_lost_that_one(stage: Stage, autojump_clock: Any) -> None:
    _, slow, _ = await audience(stage, 3)
    slow.begins = True
    slow.stall()
    await stage.show()
    await stage.leave(slow)
    assert stage.drops == {"client_left": 1}


async def test_messages_go_before_a_packet_that_comes_after_them(stage: Stage, autojump_clock: Any) -> None:
    first, told, last = await audience(stage, 3)
    told.stall()
    told.sender.say("note", {})
    await stage.show()
    assert (first.values, told.values, last.values) == ([0, 1, 2], [0, 1], [0, 1, 2])
    told.resume()
    await trio.testing.wait_all_tasks_blocked()
    assert told.values == [0, 1, 2]


async def test_a_message_said_in_the_same_instant_goes_first(stage: Stage, autojump_clock: Any) -> None:
    _, teller, told = await audience(stage, 3)
    take, texts_before = told._take, []
    teller_takes = teller._take

    def tell(*packet: Any) -> None:
        teller_takes(*packet)
        told.sender.say("note", {})

    def note_texts(*packet: Any) -> None:
        take(*packet)
        texts_before.append(told.texts[-1]["type"])

    teller._take, told._take = tell, note_texts
    await stage.show()
    assert told.values == [0, 1, 2]
    assert texts_before == ["note"]


async def test_another_task_encodes_if_the_called_one_ends(stage: Stage, autojump_clock: Any) -> None:
    leaving, *others = await audience(stage, 3)
    leaving.scope.cancel()  # in this instant it is still among those that sleep
    stage._nursery.start_soon(stage.show)
    await trio.testing.wait_all_tasks_blocked()
    leaving.sender.close()
    await trio.testing.wait_all_tasks_blocked()
    assert [viewer.values for viewer in others] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("instead", ["leaves", "is told something and stalls", "window closes"])
async def test_another_task_encodes_if_the_called_one_does_something_else(
    stage: Stage, autojump_clock: Any, instead: str
) -> None:
    viewers = await audience(stage, 3)
    stage._nursery.start_soon(stage.show)
    called: list[Any] = []
    original = stage.renditions.placed[viewers[0].down_track]._call

    def call(down_track: Any) -> None:
        original(down_track)
        if called:
            return
        called.extend(viewer for viewer in viewers if viewer.down_track is down_track)
        (viewer,) = called
        if instead == "leaves":
            viewer.scope.cancel()
        elif instead == "window closes":
            viewer.link.is_open = False
        else:
            viewer.stall()
            viewer.sender.say("note", {})

    stage.renditions.placed[viewers[0].down_track]._call = call  # type: ignore[method-assign]
    await trio.sleep(INTERVAL / 4)
    if instead == "leaves":
        called[0].sender.close()
        stage.viewers.remove(called[0])
        await trio.testing.wait_all_tasks_blocked()
    others = [viewer for viewer in viewers if viewer is not called[0]]
    assert [viewer.values for viewer in others] == [[0, 1, 2]] * 2, "within the frame's time"


async def test_a_window_that_closes_with_a_packet_opens_at_its_time(stage: Stage, autojump_clock: Any) -> None:
    first, waiting = await audience(stage, 2)
    waiting.link.probe_at = reopens = trio.current_time() + 1.5 * INTERVAL
    waiting.link.open = lambda now: waiting.values == [0, 1] or now >= reopens
    await stage.show()
    assert waiting.values == [0, 1, 2], "written by the other one's task"
    await stage.leave(first)
    await stage.show()
    assert waiting.packets[-1][0] == pytest.approx(reopens - stage.began)
    assert waiting.values == [0, 1, 2, 3]
