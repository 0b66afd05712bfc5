"""How far ahead: exact numbers, no loop."""

import math

import pytest

from reactor_trio.pacing import Lookahead


def test_a_pipeline_starts_at_once_when_nothing_is_queued_or_shown() -> None:
    assert Lookahead(4).step_at(5.0, 0.5, 0.1) < 5.0


def test_a_step_starts_when_what_is_left_lasts_for_the_step_and_one_interval() -> None:
    ahead = Lookahead(4)
    ahead.put(0.1)
    ahead.handed(1.1)  # shown at 1.0
    assert ahead.step_at(1.0, 0.0, 0.1) == pytest.approx(1.0)  # a model that costs nothing: one frame ahead, no more
    ahead.put(0.1)
    assert ahead.step_at(1.0, 0.05, 0.1) == pytest.approx(1.05)
    ahead.put(0.1)
    assert ahead.step_at(1.0, 0.05, 0.1) == math.inf  # not before the next is shown: its word will wake the model
    ahead.handed(1.2)
    assert ahead.step_at(1.1, 0.05, 0.1) == pytest.approx(1.15)


def test_the_buffer_size_is_a_ceiling() -> None:
    ahead = Lookahead(1)
    ahead.put(0.1)
    assert ahead.step_at(0.0, 100.0, 0.1) == math.inf
    ahead.handed(0.1)
    assert ahead.step_at(0.0, 100.0, 0.1) < 0


def test_a_run_loop_fills_the_buffer_the_frame_on_screen_counted() -> None:
    ahead, times = Lookahead(4), []
    for _ in range(4):
        times.append(ahead.emit_at(0.0))
        ahead.put(0.1)
        if len(times) == 1:
            ahead.handed(0.1)
    assert times == [0.0] * 4
    assert ahead.emit_at(0.0) == 0.1  # when the frame on screen has ended
    assert ahead.emit_at(0.2) == 0.2


def test_a_batch_always_has_room_in_an_empty_buffer() -> None:
    ahead = Lookahead(4)
    ahead.make_room_for(10)
    for _ in range(10):
        assert ahead.emit_at(0.0) == 0.0
        ahead.put(0.1)
    assert ahead.emit_at(0.0) == math.inf
    ahead.make_room_for(1)
    assert ahead.capacity == 4


def test_a_flush_makes_room() -> None:
    ahead = Lookahead(1)
    ahead.put(0.1)
    assert ahead.queue_at(3.0) == math.inf
    ahead.flushed()
    assert ahead.queue_at(3.0) == 3.0


def test_a_new_rate_holds_for_what_is_queued() -> None:
    ahead = Lookahead(4)
    ahead.put(0.1)
    ahead.put(0.1)
    ahead.handed(1.0)
    ahead.put(0.1)
    assert ahead.step_at(0.5, 0.15, 0.1) == pytest.approx(0.95)
    ahead.retimed(0.5)
    assert ahead.step_at(0.5, 0.6, 0.5) == pytest.approx(1.0 + 2 * 0.5 - 0.6 - 0.5)


def test_a_new_rate_does_not_change_what_audio_fixes() -> None:
    ahead = Lookahead(4)
    ahead.put(0.1)
    ahead.put(0.25, paced=False)
    ahead.retimed(0.5)
    assert ahead.step_at(0.0, 0.75 + 1.0, 1.0) == pytest.approx(0.5 + 0.25 - 1.75 - 1.0)
