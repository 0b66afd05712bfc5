"""The playout receives what the model's side queued: what has changed since then holds from the receipt on."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from reactor_trio.crossing.local_channel import open_local_channel
from reactor_trio.crossing.messages import BundleShown, FlushPlayout, RetimePlayout, ShownUntil
from reactor_trio.media import Bundle, Origin
from reactor_trio.session.playout import Playout
from reactor_trio.telemetry import Telemetry


class Counts(Telemetry):
    """Notes what is dropped."""

    def __init__(self) -> None:
        self.drops: list[tuple[str, str, int]] = []

    def dropped(self, place: str, reason: str, frames: int) -> None:
        self.drops.append((place, reason, frames))


def bundle(step: int, *, epoch: int = 0, duration: float = 1.0, paced: bool = True) -> Bundle:
    return Bundle(
        tracks={}, seqs={}, duration=duration, paced=paced, origin=Origin(step), made=0.0, epoch=epoch,
        ready=trio.current_time(),
    )  # fmt: skip


class Stage:
    """A playout with what it shows: the step, when, and for how long."""

    def __init__(self) -> None:
        ours, model = open_local_channel(lambda take: take(), lambda take: take())
        self.counts, self.shown = Counts(), []
        self.playout = Playout(self.counts, ours)
        ours.connect({Bundle: self.playout.put, FlushPlayout: self.playout.flush, RetimePlayout: self.playout.retime})
        model.connect(dict.fromkeys((BundleShown, ShownUntil), lambda _message: None))
        self.send = model.send

    def show(self, bundle: Bundle, due: float) -> None:
        self.shown.append((bundle.origin.step, due - self.began, bundle.duration))

    @asynccontextmanager
    async def running(self) -> Any:
        self.began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.playout.run, self.show, None)
            await trio.testing.wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()
        self.playout.close()


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_what_is_flushed_is_not_shown_also_if_it_has_just_left_the_queue(autojump_clock, stage):
    async with stage.running():
        for step in range(3):
            stage.send(bundle(step))  # the task waits for the first one
        stage.send(FlushPlayout(1))
        stage.send(bundle(3, epoch=1))
        await trio.sleep(10)
    assert [step for step, *_ in stage.shown] == [3]
    assert sum(frames for _, reason, frames in stage.counts.drops if reason == "flushed") == 3
    assert len(stage.playout) == 0


async def test_another_interval_holds_for_what_is_queued_and_not_for_what_comes(autojump_clock, stage):
    async with stage.running():
        for step in range(3):
            stage.send(bundle(step, paced=step != 1))
        stage.send(RetimePlayout(0.5))
        stage.send(bundle(3, duration=2.0))
        await trio.sleep(10)
    assert stage.shown == [(0, 0.0, 0.5), (1, 0.5, 1.0), (2, 1.5, 0.5), (3, 2.0, 2.0)]


async def test_what_is_queued_at_the_end_is_counted_once(autojump_clock, stage):
    async with stage.running():
        for step in range(4):
            stage.send(bundle(step))
        await trio.sleep(0.5)
        assert len(stage.playout) == 3
    assert stage.counts.drops == [("buffer", "session_over", 3)]
    assert len(stage.playout) == 0


async def test_a_held_picture_keeps_what_is_queued(autojump_clock, stage):
    async with stage.running():
        stage.send(bundle(0))
        await trio.sleep(0.5)
        stage.playout.pause()
        stage.send(bundle(1))
        await trio.sleep(5)
        assert len(stage.playout) == 1
        stage.playout.resume(trio.current_time())
        await trio.sleep(0.1)
    assert [step for step, *_ in stage.shown] == [0, 1]
