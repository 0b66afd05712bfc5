"""The presentation timeline: exact numbers, no event loop."""

import pytest

from reactor_trio.pacing import PresentationTimeline


def play(ready: list[float], duration: float, woken_late: float = 0.0) -> list[float]:
    """Due times of frames that are ready at the given times; the pacer wakes `woken_late` seconds after each is due."""
    schedule, shown = PresentationTimeline(), []
    for at in ready:
        now = max(at, schedule.until) + woken_late
        due = schedule.due(at, now, duration)
        schedule.show(due, duration)
        shown.append(due)
    return shown


def test_the_first_frame_is_due_when_it_is_ready() -> None:
    assert play([0.25], 0.1) == [0.25]


def test_frames_in_time_are_spaced_by_their_durations() -> None:
    assert play([0.0, 0.0, 0.0, 0.0], 0.25) == [0.0, 0.25, 0.5, 0.75]


def test_late_wake_ups_do_not_add_up() -> None:
    assert play([0.0] * 100, 0.25, woken_late=0.01)[-1] == 99 * 0.25


def test_a_late_frame_is_shown_at_once_and_restarts_the_timeline() -> None:
    assert play([0.0, 1.0, 1.0, 1.0], 0.25) == [0.0, 1.0, 1.25, 1.5]


def test_a_pacer_that_overslept_a_frame_does_not_catch_up() -> None:
    schedule = PresentationTimeline()
    schedule.show(0.0, 0.25)
    assert schedule.due(0.0, 0.3, 0.25) == 0.25  # a little late: the timeline continues
    assert schedule.due(0.0, 0.6, 0.25) == 0.6  # a whole frame late: the timeline restarts


def test_a_new_duration_applies_to_the_frame_on_screen() -> None:
    schedule = PresentationTimeline()
    schedule.show(1.0, 0.5)
    schedule.retime(0.1)
    assert schedule.until == 1.1


def test_an_hour_at_30_fps_does_not_drift() -> None:
    assert play([0.0] * 108_000, 1 / 30)[-1] == pytest.approx(107_999 / 30, abs=1e-6)


def test_a_timeline_that_stood_still_goes_on_from_there() -> None:
    timeline = PresentationTimeline()
    timeline.show(0.0, 0.1)
    timeline.stand_still(0.05)
    assert timeline.until == 0.1
    timeline.stand_still(0.15)
    assert timeline.due(0.0, 0.15, 0.1) == 0.15
