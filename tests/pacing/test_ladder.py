"""The bitrate ladder gives up detail, then frame rate, then size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_trio.pacing import BitrateLadder, Quality
from reactor_trio.pacing.bitrate_ladder import HYSTERESIS, LEAST_BITS_PER_PIXEL

VGA = 640 * 480 * 30  # pixels per second
FULL = 2_000_000.0
LEAST = 0.035 * VGA  # 322 560


def ladder(target: float, codec: str, width: int, height: int, fps: float, full: float | None = None) -> Quality:
    """A new ladder, with 1.5 bits per pixel at full quality, more than any codec's least."""
    return BitrateLadder(codec, width, height, fps, 1.5 * width * height * fps if full is None else full).choose(target, 0.0)


def shape(quality: Quality) -> tuple[int, float]:
    return quality.divisor, quality.scale


def test_bitrate_then_frame_rate_then_size() -> None:
    targets = [FULL, LEAST, LEAST - 1, LEAST / 3, LEAST / 5, LEAST / 6, LEAST / 13, LEAST / 30, 1000]
    shapes = [shape(ladder(target, "h264", 640, 480, 30, FULL)) for target in targets]
    assert shapes == [(1, 1), (1, 1), (2, 1), (3, 1), (3, 0.75), (3, 0.5), (3, 0.375), (3, 0.25), (3, 0.25)]


@pytest.mark.parametrize(("fps", "divisor"), [(60, 3), (30, 3), (24, 2), (20, 2), (15, 1), (5, 1)])
def test_the_frame_rate_is_never_divided_below_ten(fps: float, divisor: int) -> None:
    assert ladder(1000, "h264", 640, 480, fps).divisor == divisor


@pytest.mark.parametrize(("width", "height", "scale"), [(1280, 720, 0.25), (480, 640, 0.25), (320, 240, 0.5), (100, 80, 1)])
def test_the_longer_side_is_never_below_160_pixels(width: int, height: int, scale: float) -> None:
    assert ladder(1000, "vp8", width, height, 30).scale == scale


@pytest.mark.parametrize("codec", ["raw", "lossless"])
def test_raw_and_lossless_have_only_the_divisor(codec: str) -> None:
    full = 1.5 * VGA
    assert [shape(ladder(full * part, codec, 640, 480, 30)) for part in (1, 0.99, 0.5, 0.4, 0.01)] == [
        (1, 1), (2, 1), (2, 1), (3, 1), (3, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", LEAST_BITS_PER_PIXEL)
def test_a_codec_keeps_its_rate_and_size_down_to_its_least(codec: str) -> None:
    least = LEAST_BITS_PER_PIXEL[codec] * VGA
    assert shape(ladder(least, codec, 640, 480, 30)) == (1, 1)
    assert shape(ladder(0.99 * least, codec, 640, 480, 30)) == (2, 1)


def test_a_small_picture_gets_at_most_its_own_full_bitrate() -> None:
    steps = BitrateLadder("h264", 640, 480, 30, FULL)
    steps.choose(LEAST / 3 - 1, 0.0)
    assert steps.choose(LEAST / 3, 0.0).bitrate == LEAST / 3
    assert steps.quality(FULL, 3, 0.5).bitrate == FULL / 12


def test_a_step_up_needs_more_than_the_threshold() -> None:
    steps = BitrateLadder("h264", 640, 480, 30, FULL)
    assert steps.choose(LEAST - 1, 0.0).divisor == 2
    assert steps.choose(LEAST * HYSTERESIS - 1, 1.0).divisor == 2
    assert steps.choose(LEAST * HYSTERESIS, 2.0).divisor == 1
    assert steps.choose(LEAST, 3.0).divisor == 1


def test_a_target_of_full_quality_always_reaches_the_top_rung() -> None:
    steps = BitrateLadder("h264", 640, 480, 30, LEAST / 2)
    assert steps.choose(LEAST / 2 - 1, 0.0).divisor == 2
    assert steps.choose(LEAST / 2, 0.0) == Quality(LEAST / 2)


def test_size_changes_are_a_second_apart_and_may_skip_rungs() -> None:
    steps = BitrateLadder("h264", 640, 480, 30, FULL)
    assert shape(steps.choose(FULL, 0.0)) == (1, 1)
    assert shape(steps.choose(LEAST / 30, 0.1)) == (3, 0.25)
    assert shape(steps.choose(FULL, 1.0)) == (3, 0.25)
    assert shape(steps.choose(FULL, 1.2)) == (1, 1)
    assert shape(steps.choose(LEAST / 30, 1.5)) == (3, 1)  # the divisor changes at once
    assert shape(steps.choose(LEAST / 30, 2.2)) == (3, 0.25)


def test_another_frame_rate_keeps_the_rung() -> None:
    steps = BitrateLadder("h264", 640, 480, 30, FULL)
    steps.choose(LEAST - 1, 0.0)
    steps = BitrateLadder("h264", 640, 480, 29, FULL, steps)
    assert steps.choose(LEAST * 1.2, 1.0).divisor == 2


def test_an_unknown_size_is_not_scaled() -> None:
    assert shape(ladder(1.0, "h264", 0, 0, 30, FULL)) == (1, 1)


@given(
    st.sampled_from([*LEAST_BITS_PER_PIXEL, "raw", "lossless"]),
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(0, 0.5)), max_size=60),
)
def test_any_target_changes_the_size_at_most_once_a_second(codec: str, targets: list[tuple[float, float]]) -> None:
    steps, now, sized_at, before = BitrateLadder(codec, 1280, 720, 30, 1.5 * 1280 * 720 * 30), 0.0, -1.0, 1.0
    for i, (target, pause) in enumerate(targets):
        now += pause
        quality = steps.choose(target, now)
        assert 0 < quality.bitrate <= target
        if i and quality.scale != before:
            assert now - sized_at >= 1
            sized_at = now
        before = quality.scale
