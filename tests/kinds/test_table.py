"""Each author API has a row in `KINDS`, and what a row says of itself holds together."""

from __future__ import annotations

from typing import get_args

import pytest

from reactor_trio.interface.declaration import ModelKind
from reactor_trio.kinds.table import KINDS


def test_every_kind_of_model_has_a_row():
    assert list(KINDS) == list(get_args(ModelKind))


@pytest.mark.parametrize("name", KINDS)
def test_a_model_that_goes_on_between_its_sessions_never_ends(name):
    kind = KINDS[name]
    assert kind.driving.run is None or kind.endless
