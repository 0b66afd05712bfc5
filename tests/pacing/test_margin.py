"""The step margin: exact numbers, no event loop."""

from reactor_trio.pacing import StepMargin
from reactor_trio.pacing.step_margin import LEAST, NEEDED, REMEMBERED, WARM_UP

INTERVAL = 0.04


def observed(*overruns: float) -> StepMargin:
    margin = StepMargin()
    for overrun in [9.0] * WARM_UP + list(overruns):
        margin.observe(overrun)
    return margin


def test_the_margin_is_one_interval_until_enough_steps_are_known() -> None:
    assert observed(*[0.0] * (NEEDED - 1)).seconds(INTERVAL) == INTERVAL
    assert observed(*[0.0] * NEEDED).seconds(INTERVAL) == LEAST


def test_the_margin_is_the_largest_recent_overrun() -> None:
    assert observed(*[0.001] * NEEDED, 0.006, 0.002).seconds(INTERVAL) == LEAST + 0.006


def test_the_margin_never_exceeds_one_interval() -> None:
    assert observed(*[0.001] * NEEDED, 0.7).seconds(INTERVAL) == INTERVAL


def test_a_bad_step_is_forgotten() -> None:
    assert observed(0.03, *[0.001] * (REMEMBERED - 1)).seconds(INTERVAL) == LEAST + 0.03
    assert observed(0.03, *[0.001] * REMEMBERED).seconds(INTERVAL) == LEAST + 0.001


def test_steps_that_end_early_do_not_shrink_the_margin() -> None:
    assert observed(*[-0.01] * NEEDED).seconds(INTERVAL) == LEAST
