"""The comparison's own arithmetic: what a stamp says, and figures out of what a session saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.compare import stamp
from benchmarks.compare.comparison import PARTS, WORKLOADS
from benchmarks.compare.goals import GOALS
from benchmarks.compare.records import commands, steady


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch) -> stamp.Body:
    for name, value in {"WIDTH": "640", "HEIGHT": "480", "BATCH": "2", "RATE": "0"}.items():
        monkeypatch.setenv(f"BENCH_{name}", value)
    return stamp.Body()


@pytest.mark.parametrize("brightness", [stamp.LOW, stamp.HIGH])
def test_a_stamp_is_read_back_at_any_size_and_order_of_channels(body: stamp.Body, brightness: float) -> None:
    before = stamp.now()
    first, second = body.step(brightness)
    after = stamp.now()
    assert body.drawn == 2
    bgra = np.dstack([second[..., ::-1], np.zeros((480, 640, 1), np.uint8)])
    half = second[::2, ::2]
    for pixels, number in ((first, 1), (second, 2), (bgra, 2), (half, 2)):
        height, width, channels = pixels.shape
        got, ticks, grey = stamp.read(pixels.tobytes(), width, height, channels)
        assert got == number
        assert ticks is not None
        assert before <= ticks <= after
        assert grey == pytest.approx(255 * brightness, abs=1)


def test_a_picture_without_a_stamp_has_no_number() -> None:
    assert stamp.read(bytes(640 * 480 * 3), 640, 480, 3) == (None, None, 0)


def test_quality_tells_the_frame_itself_from_a_worse_one(body: stamp.Body) -> None:
    frame = body.step(stamp.HIGH)[0]
    assert stamp.quality(frame.tobytes(), 640, 480, 3, 1) > 60
    worse = np.clip(frame.astype(int) + 10, 0, 255).astype(np.uint8)
    assert 27 < stamp.quality(worse.tobytes(), 640, 480, 3, 1) < 30


def seen(frames: list[tuple[float, int, float]], **session: Any) -> dict[str, Any]:
    """A session of frames: arrival, number, age."""
    records = [(at, number, round((at - age) / stamp.TICK), 255.0) for at, number, age in frames]
    return {
        "frames": records, "from": 0.0, "until": 100.0, "cpu": 0.5, "resident": 100.0,
        "before": {"bytes": 0}, "after": {"bytes": 1000}, "commands": [],
    } | session  # fmt: skip


def test_steady_figures() -> None:
    frames = [(1.0, 1, 0.01), (1.1, 2, 0.02), (1.1001, 2, 0.02), (1.2, 3, 0.01), (1.7, 7, 0.03), (200.0, 8, 0.1)]
    figures = steady(seen(frames))
    assert (figures.frames, figures.generated, figures.missing, figures.freezes) == (4, 7, 3, 0)
    assert figures.gaps == pytest.approx([0.1, 0.1, 0.5])
    assert figures.ages == pytest.approx([0.01, 0.02, 0.01, 0.03], abs=2e-4)
    assert figures.fps == pytest.approx(3 / 0.7)
    assert figures.bits_per_second == 80


def test_a_freeze_is_a_gap_of_three_means() -> None:
    gaps = [(n / 10, n, 0.0) for n in range(1, 31)] + [(4.0, 31, 0.0)]
    assert steady(seen(gaps)).freezes == 1


def test_commands_are_measured_from_their_sending() -> None:
    frames = [(0.13, 1, 0.01), (0.24, 2, 0.02), (0.33, 3, 0.01)]
    entries = [
        {"sent": 0.15, "bright": False, "acked": 0.225, "seen": 0.33},
        {"sent": 0.5, "bright": True, "missed": True, "error": "no"},
    ]
    figures = commands(seen(frames, commands=entries))
    assert figures.pictures == pytest.approx([0.18])
    assert figures.acks == pytest.approx([0.075])
    assert figures.beyond_step == pytest.approx([0.005], abs=2e-4)  # the step that ran drew its frame at 0.22
    assert figures.after_step == pytest.approx([0.11], abs=2e-4)
    assert (figures.missed, figures.errors) == (1, ["no"])


def test_every_goal_has_its_workload_and_its_other() -> None:
    for goal in GOALS:
        assert goal.workload in WORKLOADS
        assert goal.other == "reactor-runtime" or goal.other in {system.name for system in PARTS[goal.workload]}
