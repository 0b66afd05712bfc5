"""Each author API has a row in `KINDS`, and what a row says of itself holds together."""

from __future__ import annotations

from typing import get_args

import pytest

from reactor_trio.execution.step_loop import StepLoop
from reactor_trio.interface.declaration import ModelKind
from reactor_trio.kinds.table import KINDS


def test_every_kind_of_model_has_a_row():
    assert list(KINDS) == list(get_args(ModelKind))


@pytest.mark.parametrize("name", KINDS)
def test_either_the_runtime_makes_the_steps_or_a_driver_of_the_kind_follows_author_code(name):
    driving = KINDS[name].driving
    assert (driving.source is not None) == (driving.driver is StepLoop)
    assert driving.turns is None or driving.source is not None
    assert driving.run is None or driving.source is None


@pytest.mark.parametrize("name", KINDS)
def test_a_model_that_goes_on_between_its_sessions_never_ends(name):
    kind = KINDS[name]
    assert kind.driving.run is None or kind.endless
