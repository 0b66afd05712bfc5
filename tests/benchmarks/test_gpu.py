"""The benchmark for a card, where there is none: what needs no card runs, and what fails does not stop the rest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.report import Report

from benchmarks import gpu, gpu_models


def rows(report: Report) -> list[list[Any]]:
    [table] = report.tables
    rows: list[list[Any]] = table["rows"]
    return rows


def test_without_a_card_the_conversion_runs_and_the_others_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    needless = {"model", "isolation: process", "ranks", "colours", "memory back"}  # they start servers; other tests do, too
    monkeypatch.setattr(gpu, "PARTS", {name: part for name, part in gpu.PARTS.items() if name not in needless})
    report = Report("gpu")
    gpu.run(report, quick=True, device="cpu")
    sizes = [row[1] for row in rows(report) if row[0] == "conversion to YUV"]
    assert sizes == ["480p", "720p", "1080p"]
    assert [row[0] for row in rows(report) if row[2] == "needs a card"] == [
        "overlap", "torch.compile", "CUDA graph", "NVENC", "JPEG on the card", "memory", "failures", "captures",
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
    what, result = gpu_models._served(torch.device("cpu"), "plain", True)
    assert what == "480p"
    assert str(result).endswith("pictures right")


#: what `scripts/gpu --pack` calls: it notes its arguments, and makes the files that pip would
PIP = """\
#!/usr/bin/env bash
echo "$*" >>"$(dirname "$0")/calls"
case "$*" in
    *" wheel "*) mkdir "$FOLDER"; touch "$FOLDER/reactor_trio-1-py3-none-any.whl" ;;
    *" download "*) touch "$FOLDER/numpy-2-cp312-none-any.whl" "$FOLDER/trio-1-py3-none-any.whl" ;;
    "-c "*) echo 3.11 ;;
esac
"""


@pytest.mark.parametrize(("arguments", "version"), [((), "3.11"), (("--python", "3.12"), "3.12")])
def test_wheels_are_packed_for_this_python_or_another(tmp_path: Path, arguments: tuple[str, ...], version: str) -> None:
    script = Path(__file__).parents[2] / "scripts" / "gpu"
    python, folder = tmp_path / "venv" / "bin" / "python", tmp_path / "wheels"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    told = subprocess.run(
        [script, "--pack", folder, *arguments],
        env=os.environ | {"REACTOR_VENV": str(tmp_path / "venv"), "FOLDER": str(folder)},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert {file.name for file in folder.iterdir()} == {"reactor_trio-1-py3-none-any.whl", "trio-1-py3-none-any.whl"}
    (download,) = [line for line in (python.parent / "calls").read_text().splitlines() if " download " in line]
    assert f"--python-version {version} --platform manylinux_2_28_" in download
    assert f"2 wheels for Python {version}" in told
