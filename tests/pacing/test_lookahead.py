"""The playout forecast: exact numbers, no event loop."""

import math

import pytest

from reactor_trio.pacing import PlayoutForecast
from reactor_trio.pacing.playout_forecast import MOST_UNSHOWN


def test_a_pipeline_starts_at_once_when_nothing_is_queued_or_shown() -> None:
    assert PlayoutForecast(4).step_at(5.0, 0.5, 0.1) < 5.0


def test_a_step_starts_when_what_is_left_lasts_for_the_step_and_the_margin() -> None:
    ahead = PlayoutForecast(4)
    ahead.put(1.0, 0.1)
    ahead.handed(1.1)  # shown at 1.0
    assert ahead.step_at(1.0, 0.0, 0.1) == pytest.approx(1.0)  # a model that costs nothing, one interval of margin
    assert ahead.step_at(1.0, 0.0, 0.01) == pytest.approx(1.09)
    ahead.put(1.0, 0.1)
    assert ahead.step_at(1.0, 0.05, 0.1) == pytest.approx(1.05)
    ahead.put(1.0, 0.1)
    assert ahead.step_at(1.0, 0.05, 0.1) == pytest.approx(1.15)  # when two have been shown


def test_a_frame_counts_as_shown_when_it_is_due() -> None:
    ahead = PlayoutForecast(1)
    ahead.put(0.0, 0.1)  # due at once: there is nothing on screen
    ahead.put(0.0, 0.1)  # due at 0.1
    assert ahead.queue_at(0.05) == 0.1
    assert ahead.queue_at(0.1) == 0.1
    ahead.put(0.5, 0.1)  # late: due when it was ready
    assert ahead.queue_at(0.5) == 0.5
    assert ahead.step_at(0.55, 0.0, 0.1) == pytest.approx(0.5)  # it lasts until 0.6


def test_while_playout_stands_still_no_frame_counts_as_shown() -> None:
    ahead = PlayoutForecast(4)
    for _ in range(3):
        ahead.put(0.0, 0.1)
    ahead.handed(0.1)
    assert ahead.runs_dry(50.0) == 50.0  # as if both others had been shown
    ahead.stood_still(50.0)
    assert ahead.runs_dry(50.0) == pytest.approx(50.2)
    ahead.stood_still(49.0)
    assert ahead.runs_dry(50.0) == pytest.approx(50.2)


def test_the_report_of_playout_replaces_the_forecast() -> None:
    ahead = PlayoutForecast(1)
    ahead.put(0.0, 0.1)
    ahead.put(0.0, 0.1)
    ahead.handed(0.3)  # the first was shown late, at 0.2
    assert ahead.queue_at(0.25) == 0.3


def test_without_assumptions_only_reports_of_playout_count() -> None:
    ahead = PlayoutForecast(1, assume=False)
    ahead.put(0.0, 0.1)
    assert ahead.queue_at(5.0) == ahead.emit_at(5.0) == ahead.step_at(5.0, 0.0, 0.1) == math.inf
    ahead.handed(5.1)
    assert ahead.queue_at(5.0) == 5.0


def test_the_capacity_is_a_limit() -> None:
    ahead = PlayoutForecast(1)
    ahead.put(0.0, 0.1)
    ahead.put(0.0, 0.1)
    assert ahead.step_at(0.0, 100.0, 0.1) == 0.1
    assert ahead.step_at(0.1, 100.0, 0.1) < 0.1


def test_a_run_loop_fills_the_buffer_the_frame_on_screen_counted() -> None:
    ahead, times = PlayoutForecast(4), []
    for _ in range(4):
        times.append(ahead.emit_at(0.0))
        ahead.put(0.0, 0.1)
    assert times == [0.0] * 4
    assert ahead.emit_at(0.0) == 0.1  # when the frame on screen has ended
    assert ahead.emit_at(0.2) == 0.2


def test_a_batch_always_has_room_in_an_empty_buffer() -> None:
    ahead = PlayoutForecast(4)
    ahead.make_room_for(10)
    for _ in range(10):
        assert ahead.emit_at(0.0) == 0.0
        ahead.put(0.0, 0.1)
    assert ahead.emit_at(0.0) == 0.1
    ahead.make_room_for(1)
    assert ahead.capacity == 4


def test_a_flush_removes_all_frames_but_the_one_on_screen() -> None:
    ahead = PlayoutForecast(1)
    ahead.put(3.0, 0.1)
    ahead.put(3.0, 0.1)
    ahead.put(3.0, 0.1)
    assert ahead.queue_at(3.11) == pytest.approx(3.2)
    ahead.flushed(3.11)
    assert ahead.queue_at(3.11) == 3.11
    assert ahead.step_at(3.11, 0.0, 0.0) == pytest.approx(3.2)  # the second is on screen until then


def test_a_new_rate_applies_to_queued_frames() -> None:
    ahead = PlayoutForecast(4)
    ahead.put(0.9, 0.1)
    ahead.put(0.9, 0.1)
    ahead.handed(1.0)
    ahead.put(0.9, 0.1)
    assert ahead.step_at(0.9, 0.15, 0.1) == pytest.approx(0.95)
    ahead.retimed(0.5)
    assert ahead.step_at(0.9, 0.6, 0.5) == pytest.approx(1.0 + 2 * 0.5 - 0.6 - 0.5)


def test_a_new_rate_does_not_change_durations_that_audio_fixes() -> None:
    ahead = PlayoutForecast(4)
    ahead.put(9.0, 0.1)
    ahead.put(9.0, 0.25, paced=False)
    ahead.retimed(0.5)
    assert ahead.step_at(0.0, 0.75 + 1.0, 1.0) == pytest.approx(0.5 + 0.25 - 1.75 - 1.0)


def test_the_model_waits_for_a_report_when_much_and_many_are_queued() -> None:
    ahead, size = PlayoutForecast(2), MOST_UNSHOWN // 8
    for number in range(8):
        ahead.put(number * 0.1, 0.1, size=size)
        assert not ahead.starves
    ahead.put(0.8, 0.1, size=1)
    assert ahead.starves
    ahead.handed(0.1)
    assert not ahead.starves
    ahead.put(0.9, 0.1, size=size)
    ahead.make_room_for(9)  # a model that makes large batches may queue some of them
    assert not ahead.starves


def test_flushed_frames_count_as_queued_until_playout_has_dropped_them() -> None:
    ahead, size = PlayoutForecast(1), MOST_UNSHOWN // 8
    for number in range(9):
        ahead.put(number * 0.1, 0.1, size=size, emitted=size)
        ahead.flushed(number * 0.1)
        assert ahead.emitted == 0
    assert ahead.starves
    ahead.shown(0.1)
    assert not ahead.starves
    assert ahead.unshown == 0
    ahead.put(1.0, 0.1, size=size, emitted=size)
    ahead.handed(1.1)
    assert (ahead.unshown, ahead.emitted) == (0, 0)
