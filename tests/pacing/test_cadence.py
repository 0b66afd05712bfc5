"""Frame rates: exact numbers, no event loop."""

import math

import pytest

from reactor_trio.pacing import BlockCadence, Cadence


def observed(*steps: tuple[float, int], fps: float | None = None, max_fps: float = 60) -> Cadence:
    cadence = Cadence(fps, max_fps)
    for seconds, frames in steps:
        cadence.observe(seconds, frames)
    return cadence


def test_before_the_first_step_the_rate_is_the_declared_one_or_30() -> None:
    assert Cadence(None, 60).fps == 30
    assert Cadence(24, 60).fps == 24
    assert Cadence(90, 60).fps == 60


def test_the_first_step_is_provisional_the_second_replaces_it_then_smoothing() -> None:
    assert observed((2.0, 1)).seconds_per_frame == 2.0
    assert observed((2.0, 1), (0.1, 1)).seconds_per_frame == 0.1
    third = observed((2.0, 1), (0.1, 1), (0.2, 1)).seconds_per_frame
    assert third == pytest.approx(0.1 + 0.3 * 0.1)


def test_a_batch_counts_by_its_frames() -> None:
    assert observed((0.5, 10)).fps == 20


@pytest.mark.parametrize(
    ("fps", "max_fps", "seconds", "expected"),
    [
        (24, 60, 0.001, 24),  # declared caps
        (24, 60, 0.1, 10),  # and never raises
        (None, 60, 0.001, 60),  # undeclared: max_fps caps
        (None, 60, 0.0, 60),
        (None, 1000, 0.001, 1000),
        (120, 60, 0.001, 60),
        (None, 60, 5.0, 1),  # never below one frame a second ...
        (0.5, 60, 5.0, 0.5),  # ... unless that is what was declared
    ],
)
def test_the_rate_is_clamped(fps: float | None, max_fps: float, seconds: float, expected: float) -> None:
    assert observed((seconds, 1), fps=fps, max_fps=max_fps).fps == pytest.approx(expected)


def test_set_fps_replaces_the_declared_rate() -> None:
    cadence = observed((0.01, 1), fps=10)
    cadence.set_fps(20)
    assert cadence.interval == pytest.approx(0.05)
    cadence.set_fps(5)
    assert cadence.interval == pytest.approx(0.2)


@pytest.mark.parametrize("fps", [0, -1, math.nan, math.inf])
def test_a_rate_is_a_finite_number_above_zero(fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be a finite number above 0"):
        Cadence(None, 60).set_fps(fps)


@pytest.mark.parametrize(("seconds", "frames"), [(math.nan, 1), (math.inf, 1), (-1.0, 1), (1.0, 0)])
def test_invalid_observations_are_ignored(seconds: float, frames: int) -> None:
    assert observed((seconds, frames)).seconds_per_frame == 0


def test_a_bursty_model_has_a_stable_rate() -> None:
    """Steps of 12 frames whose time swings by half never make the rate spiral down."""
    cadence = observed(*[(0.4 if i % 2 else 0.6, 12) for i in range(200)])
    assert 20 < cadence.fps < 30


def test_time_in_which_a_blocking_model_could_not_push_does_not_count():
    for pushed, began, ended, since in ((10.0, 12.0, 20.0, 18.0), (13.0, 12.0, 20.0, 20.0), (10.0, 12.0, 12.0, 10.0)):
        cadence = BlockCadence(None, 60)
        cadence.pushed(pushed, 1, 0)
        cadence.stood_still(began, ended)
        cadence.pushed(since + 0.1, 1, 0)
        assert cadence.fps == pytest.approx(10)
    unknown = BlockCadence(None, 60)
    unknown.stood_still(1, 2)
    unknown.pushed(3, 1, 0)
    assert unknown.fps == 16
