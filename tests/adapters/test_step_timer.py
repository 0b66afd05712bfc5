"""`StepTimer` on the host's clock and on a stand-in for CUDA, whose queue the test works off."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import trio

from reactor_trio.adapters import StepTimer


class Card:
    """A device with one stream: `queue` is what it still has to do, in milliseconds; `now` how far it is."""

    def __init__(self) -> None:
        self.now = self.queued = 0.0

    def launch(self, milliseconds: float) -> None:
        self.queued += milliseconds

    def event(self, *, enable_timing: bool, blocking: bool) -> Event:
        assert enable_timing
        assert blocking  # a wait for another event spins
        return Event(self)


class Event:
    def __init__(self, card: Card) -> None:
        self.card = card

    def record(self, stream: object) -> None:
        assert stream == "the model's of cuda:1"
        self.at = self.card.queued

    def query(self) -> bool:
        return self.at <= self.card.now

    def synchronize(self) -> None:
        self.card.now = max(self.card.now, self.at)

    def elapsed_time(self, end: Event) -> float:
        assert self.query()
        assert end.query()
        return end.at - self.at


@pytest.fixture
def card(monkeypatch):
    card = Card()
    cuda = SimpleNamespace(Event=card.event, current_stream=lambda device: f"the model's of {device}")
    monkeypatch.setattr(torch, "cuda", cuda)
    return card


async def test_on_the_host_it_is_the_time_of_the_calls(autojump_clock):
    timer = StepTimer()
    assert timer.seconds is None
    for seconds in (0.25, 0.5):
        with timer:
            await trio.sleep(seconds)
        assert timer.seconds == timer.wait() == seconds


def test_a_script_without_trio_is_timed():
    timer = StepTimer(torch.device("cpu"))
    with timer:
        sum(range(1000))
    assert timer.wait() > 0


def test_on_cuda_the_device_is_timed_without_waiting(card):
    timer = StepTimer(torch.device("cuda:1"))
    card.launch(7)  # of another model: not ours
    with timer:
        card.launch(30)
    assert timer.seconds is None
    card.now = 20
    assert timer.seconds is None
    card.now = 37
    assert timer.seconds == 0.03


def test_the_newest_finished_block_counts(card):
    timer = StepTimer("cuda:1")
    for milliseconds in (30, 40, 50):
        with timer:
            card.launch(milliseconds)
    card.now = 75
    assert timer.seconds == 0.04
    assert timer.wait() == 0.05
    assert card.now == 120


def test_blocks_that_are_finished_are_not_kept(card):
    timer = StepTimer("cuda:1")
    for _ in range(1000):
        with timer:
            card.launch(1)
        card.now = card.queued
    assert len(timer._running) == 1


async def test_a_block_that_raises_counts(autojump_clock):
    timer = StepTimer()
    with pytest.raises(ValueError, match="no"), timer:
        await trio.sleep(2)
        raise ValueError("no")
    assert timer.seconds == 2


def test_a_wait_without_a_block_is_a_mistake():
    with pytest.raises(RuntimeError, match="nothing was timed yet"):
        StepTimer().wait()
