"""What tests of saved worlds need: a folder for the store, and the ways to place a model."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=["thread", "process"])
def way(request: pytest.FixtureRequest) -> str:
    """Where the model runs: a test that takes this runs for both."""
    return request.param
