"""The benchmark for a card, where there is none: what needs no card runs, and what fails does not stop the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from benchmarks.report import Report

from benchmarks import gpu


def rows(report: Report) -> list[list[Any]]:
    [table] = report.tables
    rows: list[list[Any]] = table["rows"]
    return rows


def test_without_a_card_the_conversion_runs_and_the_others_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    needless = {"model", "isolation: process", "ranks"}  # they start servers; other tests do, too
    monkeypatch.setattr(gpu, "PARTS", {name: part for name, part in gpu.PARTS.items() if name not in needless})
    report = Report("gpu")
    gpu.run(report, quick=True, device="cpu")
    sizes = [row[1] for row in rows(report) if row[0] == "conversion to YUV"]
    assert sizes == ["480p", "720p", "1080p"]
    assert [row[0] for row in rows(report) if row[2] == "needs a card"] == [
        "overlap", "torch.compile", "CUDA graph", "NVENC", "JPEG on the card", "memory",
    ]  # fmt: skip
    assert all(bar["met"] for bar in report.bars)


def test_a_part_that_fails_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: Any, quick: bool) -> Iterator[list[object]]:
        yield ["720p", "1 ms a frame"]
        raise RuntimeError("no kernel\nimage")

    def whole(device: Any, quick: bool) -> Iterator[list[object]]:
        yield ["", "opens"]

    monkeypatch.setattr(gpu, "PARTS", {"one": broken, "other": whole})
    report = Report("gpu")
    gpu.run(report, quick=True, device="cpu")
    assert rows(report) == [
        ["one", "720p", "1 ms a frame"], ["one", "", "failed: RuntimeError: no kernel image"], ["other", "", "opens"],
    ]  # fmt: skip
    assert [bar["met"] for bar in report.bars] == [False]


def test_a_served_model_is_measured_and_its_pictures_checked() -> None:
    what, result = gpu._served(torch.device("cpu"), "plain", True)
    assert what == "480p"
    assert str(result).endswith("pictures right")
