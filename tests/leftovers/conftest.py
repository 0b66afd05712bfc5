"""Each test here looks at all objects that there are: without those of the modules this takes a tenth of the time."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def frozen_modules() -> None:
    """Freeze them again, if an earlier test has thawed them (`reactor_trio.interpreter`, `held.why`)."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
