"""The playout smoother: exact numbers, no event loop."""

import random
from itertools import pairwise

import pytest

from reactor_trio.pacing import PlayoutSmoother
from reactor_trio.pacing.playout_smoother import AHEAD, ALPHA, FASTER, GAIN, LONGEST, MOST, WARM_UP


def observed(*steps: float, frames: int = 1) -> PlayoutSmoother:
    tempo = PlayoutSmoother()
    for seconds in steps:
        tempo.observe(seconds, frames)
    return tempo


def steady(seconds: float, frames: int = 1) -> PlayoutSmoother:
    return observed(*[seconds] * (WARM_UP + 1), frames=frames)


def test_a_steady_model_plays_at_its_own_rate_without_waiting() -> None:
    tempo = steady(0.25)
    assert (tempo.duration(0.0), tempo.delay, tempo.ahead) == (0.25, 0.0, 0.0)
    assert steady(0.5, frames=10).duration(0.0) == 0.05


def test_the_first_step_holds_until_the_second_and_a_warm_up_is_followed_at_once() -> None:
    assert observed(9.0).duration(0.0) == 9.0
    tempo = observed(9.0, 0.2)
    assert (tempo.duration(0.0), tempo.anew) == (0.2, True)
    tempo.observe(0.1, 1)
    assert (tempo.cycle, tempo.anew) == (0.1, True)
    tempo.observe(0.15, 1)  # slower: smoothed
    assert tempo.cycle == pytest.approx(0.1 + MOST * 0.05)
    assert not tempo.anew


def test_one_stall_counts_for_one_interval() -> None:
    tempo = steady(0.1)
    tempo.observe(5.0, 1)
    assert tempo.cycle == pytest.approx(0.1 + ALPHA * 0.1)
    assert tempo.delay == 0.0


def test_two_long_steps_in_a_row_are_a_new_rate() -> None:
    tempo = steady(0.1)
    tempo.observe(0.5, 1)
    before = tempo.cycle
    tempo.observe(0.5, 1)
    assert tempo.cycle == pytest.approx(before + ALPHA * (0.5 - before))


def test_a_model_that_becomes_much_faster_is_followed_at_the_second_step() -> None:
    tempo = steady(0.4)
    tempo.observe(0.1, 1)
    assert not tempo.anew
    tempo.observe(0.1, 1)
    assert tempo.cycle == pytest.approx(0.1)
    assert tempo.anew


def test_a_batch_counts_for_its_frames_but_not_above_a_bound() -> None:
    tempo = steady(0.4, frames=2)
    tempo.observe(0.5, 2)
    assert tempo.cycle == pytest.approx(0.4 + 2 * ALPHA * 0.1)
    tempo = steady(0.4, frames=12)
    tempo.observe(0.41, 12)
    assert tempo.cycle == pytest.approx(0.4 + MOST * 0.01)


def test_another_batch_size_keeps_the_time_of_a_frame() -> None:
    tempo = steady(0.4, frames=4)
    tempo.observe(0.8, 8)
    assert tempo.duration(0.0) == pytest.approx(0.1)
    assert tempo.delay == 0.0


def test_the_intended_wait_is_the_usual_overrun_and_each_step_corrects_a_part() -> None:
    tempo = steady(0.1)
    for _ in range(10):
        for overrun in (-0.004, 0.004):
            tempo.observe(0.1 + overrun, 1)
    assert tempo.delay == pytest.approx(0.004, abs=0.0005)
    assert tempo.ahead == AHEAD * tempo.delay
    assert tempo.duration(0.0) == tempo.cycle + GAIN * tempo.delay
    assert tempo.duration(tempo.delay) == tempo.cycle
    assert tempo.duration(0.05) == tempo.cycle - GAIN * (0.05 - tempo.delay)
    assert tempo.duration(5.0) == (1 - FASTER) * tempo.cycle


def test_frames_never_wait_for_more_than_half_an_interval_nor_for_long() -> None:
    for interval, most in ((0.02, 0.01), (0.5, LONGEST)):
        tempo = observed(*[interval * (1.6 if n % 2 else 0.6) for n in range(60)])
        assert tempo.delay == pytest.approx(most, rel=0.2)
        assert tempo.delay <= LONGEST
        assert tempo.ahead <= tempo.cycle


def test_old_overruns_are_forgotten() -> None:
    tempo = observed(*[0.1 * (1.2 if n % 2 else 0.8) for n in range(60)])
    assert tempo.delay > 0.01
    for _ in range(200):
        tempo.observe(0.1, 1)
    assert tempo.delay == pytest.approx(0.0, abs=1e-6)


def test_frames_of_a_jittery_model_are_shown_more_evenly_than_its_steps() -> None:
    """The model never waits: a frame is ready when its step ends, and is shown then or when the previous one ends."""
    dice, tempo, until, ready, shown, steps = random.Random(3), PlayoutSmoother(), 0.0, 0.0, [], []
    for _ in range(2000):
        steps.append(dice.gauss(0.04, 0.004))
        ready += steps[-1]
        tempo.observe(steps[-1], 1)
        shown.append(max(until, ready))
        until = shown[-1] + tempo.duration(shown[-1] - ready)
    gaps = [after - before for before, after in pairwise(shown)][100:]
    assert spread(gaps) < 0.5 * spread(steps)
    assert max(after - before for before, after in zip([0.04] * len(gaps), gaps, strict=True)) < 0.012
    assert shown[-1] - ready < 0.03


def spread(samples: list[float]) -> float:
    mean = sum(samples) / len(samples)
    return (sum((sample - mean) ** 2 for sample in samples) / len(samples)) ** 0.5
