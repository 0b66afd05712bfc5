"""The arithmetic of bitrate plans and of JPEG quality."""

from __future__ import annotations

from itertools import pairwise

import pytest

from reactor_trio.media.bitrates import LivePlan, Opening, Plan, SteppedPlan, full_bitrate, nominal_fps
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.jpeg import JpegQuality
from reactor_trio.pacing import Quality

AUTO = CodecSettings()
FULL = 2_000_000.0


def test_full_quality_has_the_bitrates_that_are_documented() -> None:
    for codec in ("h264", "vp8", "vp9", "av1"):
        assert full_bitrate(codec, 640, 480, 30, AUTO) == pytest.approx(2e6)
        assert full_bitrate(codec, 1280, 720, 30, AUTO) == pytest.approx(5e6, rel=0.01)
        assert 1.5 < full_bitrate(codec, 640, 480, 60, AUTO) / 2e6 < 2
        assert full_bitrate(codec, 640, 480, 30, CodecSettings(bitrate=700_000)) == 700_000
    assert full_bitrate("raw", 640, 480, 30, AUTO) == 640 * 480 * 24 * 30
    at_80, at_40 = (full_bitrate("jpeg", 640, 480, 30, CodecSettings(jpeg_quality=q)) for q in (80, 40))
    assert 12e6 < at_80 < 24e6
    assert at_40 < at_80 / 1.8
    assert full_bitrate("jpeg", 640, 480, 30, CodecSettings(bitrate=700_000)) == 700_000
    assert full_bitrate("jpeg", 640, 480, 30, CodecSettings(bitrate=100_000_000)) == at_80


@pytest.mark.parametrize(("fps", "nominal"), [(0.2, 1), (7, 8), (29.97, 30), (30, 30), (30.4, 30), (31, 40), (59.94, 60)])
def test_an_encoder_is_opened_with_the_next_common_frame_rate(fps: float, nominal: int) -> None:
    assert nominal_fps(fps) == nominal


def test_a_live_plan_stays_between_a_quarter_of_its_ceiling_and_the_ceiling() -> None:
    plan = LivePlan()
    assert plan.decide(Quality(FULL, 30), FULL) == Opening(2_000_000, 30)
    for bitrate in (1_900_000, 500_001, 2_000_000, 2_190_000):
        assert plan.decide(Quality(bitrate, 30), FULL) is None
        assert plan.live(Quality(bitrate, 30)) == min(bitrate, 2_000_000)
    assert plan.decide(Quality(480_000, 30), FULL) == Opening(720_000, 30)


def test_a_keyframe_that_is_due_anyway_lowers_the_ceiling_earlier() -> None:
    plan = LivePlan()
    plan.decide(Quality(FULL, 30), FULL)
    assert plan.decide(Quality(1_000_000, 30), FULL, True) is None
    assert plan.decide(Quality(900_000, 30), FULL) is None
    assert plan.decide(Quality(900_000, 30), FULL, True) == Opening(1_350_000, 30)
    assert plan.decide(Quality(900_000, 30), FULL, True) is None
    assert plan.decide(Quality(1_480_000, 30), FULL) is None
    assert plan.decide(Quality(1_500_000, 30), FULL) == Opening(2_000_000, 30)


def test_a_live_plan_does_not_reopen_the_encoder_again_and_again() -> None:
    """A target that swings by a third around any value reopens the encoder at most once."""
    for middle in (60_000, 200_000, 500_000, 660_000, 2_000_000, 3_000_000):
        plan, opened = LivePlan(), 0
        for i in range(100):
            opened += plan.decide(Quality(middle * (1.33 if i % 2 else 0.75), 30), FULL) is not None
        assert opened <= 2, middle


def test_a_live_plan_comes_back_to_full_quality_in_few_steps() -> None:
    plan, bitrate, opened = LivePlan(), 100_000.0, 0
    while bitrate < FULL:
        opened += plan.decide(Quality(bitrate, 30), FULL) is not None
        bitrate *= 1.1
    opened += plan.decide(Quality(FULL, 30), FULL) is not None
    assert (plan.live(Quality(FULL, 30)) or 0) >= 0.9 * FULL
    assert opened <= 6


def test_a_live_plan_converts_the_bitrate_to_the_frame_rate_of_the_open_encoder() -> None:
    """The encoder counts frames, not time: at half the frame rate it gets twice the bitrate."""
    plan = LivePlan()
    plan.decide(Quality(FULL, 60), FULL)
    assert plan.decide(Quality(FULL / 2, 30), FULL) is None
    assert plan.live(Quality(FULL / 2, 30)) == FULL
    assert plan.decide(Quality(FULL, 30), FULL) == Opening(2_000_000, 30)
    assert plan.decide(Quality(FULL, 60), FULL) == Opening(2_000_000, 60)  # the level must fit, too
    assert plan.decide(Quality(FULL, 58), FULL) is None
    assert plan.live(Quality(FULL, 58)) == 2_000_000


@pytest.mark.parametrize("timed", [True, False])
def test_a_stepped_plan_reopens_once_in_five_seconds_or_at_once_below_half(timed: bool) -> None:
    plan, log = SteppedPlan(timed), []
    for i in range(600):
        bitrate = 1_000_000 if i < 60 else 600_000 if i < 300 else 200_000 if i < 310 else 900_000
        opening = plan.decide(Quality(bitrate, 30), FULL)
        if opening is not None:
            log.append((i, opening.bitrate))
    assert log == [(0, 1_000_000), (150, 600_000), (300, 200_000), (450, 900_000)]


def test_on_a_thin_link_a_stepped_plan_waits_longer_before_each_rise() -> None:
    """The target rises while the encoder stays within what the link carries, and falls when it exceeds that."""
    plan, rises = SteppedPlan(True), []
    for i in range(120 * 30):
        carried = plan.opened is None or plan.opened.bitrate <= 850_000
        rose = i > 0 and plan.decide(Quality(FULL if carried else 850_000, 30), FULL) == Opening(2_000_000, 30)
        if i == 0:
            plan.decide(Quality(850_000, 30), FULL)
        if rose:
            rises.append(i)
    assert [round((b - a) / 30) for a, b in pairwise([0, *rises])] == [5, 10, 20, 20, 20, 20, 20]


def test_after_a_rise_that_held_a_stepped_plan_waits_only_the_usual_pause() -> None:
    plan, log = SteppedPlan(True), []
    for i in range(40 * 30):
        at = i / 30
        bitrate = 300_000 if at < 5 else 600_000 if at < 5.5 else 250_000 if at < 20 else 500_000 if at < 25 else 2_000_000
        opening = plan.decide(Quality(bitrate, 30), FULL)
        if opening is not None:
            log.append((round(at, 1), opening.bitrate // 1000))
    assert log == [(0.0, 300), (5.0, 600), (5.5, 250), (20.0, 500), (25.0, 2000)]


def test_a_keyframe_that_is_due_anyway_lets_a_stepped_plan_fall_but_not_rise() -> None:
    plan = SteppedPlan(True)
    plan.decide(Quality(1_000_000, 30), FULL)
    assert plan.decide(Quality(880_000, 30), FULL, True) is None
    assert plan.decide(Quality(1_500_000, 30), FULL, True) is None
    assert plan.decide(Quality(600_000, 30), FULL) is None
    assert plan.decide(Quality(600_000, 30), FULL, True) == Opening(600_000, 30)


def test_a_stepped_plan_ignores_small_changes() -> None:
    plan = SteppedPlan(True)
    openings = [plan.decide(Quality(1_000_000 * (1.12, 0.95, 1, 0.9)[i % 4], 30), FULL) for i in range(-2, 1000)]
    assert [i for i, opening in enumerate(openings) if opening] == [0]


def test_a_frame_rate_changes_a_plan_only_if_the_encoder_ignores_timestamps() -> None:
    for timed, log in ((True, [0]), (False, [0, 75])):
        plan = SteppedPlan(timed)
        fps = [30] + [15] * 200
        openings = [plan.decide(Quality(1_000_000, rate), FULL) for rate in fps]
        assert [i for i, opening in enumerate(openings) if opening] == log
    assert plan.opened == Opening(1_000_000, 15)


def test_another_size_always_reopens_the_encoder() -> None:
    for plan in (LivePlan(), SteppedPlan(True), Plan()):
        assert plan.decide(Quality(FULL, 30), FULL) is not None
        assert plan.decide(Quality(FULL, 30), FULL) is None
        plan.forget()
        assert plan.decide(Quality(FULL, 30), FULL) is not None


class Camera:
    """An imagined JPEG encoder: sizes follow another power of the scale than we assume, and flicker."""

    def __init__(self, power: float, flicker: float) -> None:
        self.power, self.flicker, self.number = power, flicker, 0

    def size(self, quality: int) -> int:
        self.number += 1
        scale = 5000 / quality if quality < 50 else 200 - 2 * quality
        return round(50_000 * (40 / scale) ** self.power * (1 + self.flicker * (-1) ** self.number))


@pytest.mark.parametrize("power", [0.4, 0.6, 0.9])
@pytest.mark.parametrize("wanted", [40_000, 30_000, 22_000])
def test_jpeg_quality_settles_at_the_wanted_size(power: float, wanted: int) -> None:
    control, camera, pixels = JpegQuality(80), Camera(power, 0.03), 640 * 480
    qualities, sizes = [], []
    for _ in range(120):
        qualities.append(control.aim(pixels, wanted))
        sizes.append(camera.size(qualities[-1]))
        control.sent(pixels, sizes[-1])
    settled = qualities[60:]
    assert max(settled) - min(settled) == 0
    reachable = camera.size(20) * 0.97 < wanted
    assert (sum(sizes[60:]) / 60 == pytest.approx(wanted, rel=0.12)) if reachable else settled[0] == 20
    rises = [b > a for a, b in pairwise(qualities[1:]) if a != b]
    assert sum(a != b for a, b in pairwise(rises)) <= 1  # it overshoots at most once


def test_jpeg_quality_is_never_above_the_declared_one_which_is_the_default() -> None:
    control = JpegQuality(80)
    for wanted in (None, 10_000, None, 10_000_000):
        control.sent(1000, 500)
        quality = control.aim(1000, wanted and wanted / 1000)
    assert quality == 80
    low = JpegQuality(10)
    low.sent(1000, 500)
    assert low.aim(1000, 1) == 10
