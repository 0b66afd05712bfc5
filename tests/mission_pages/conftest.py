from __future__ import annotations

import pytest
from tests.support.mission_pages import IMPORTS, PIPE, Modules, compose


@pytest.fixture
def modules(tmp_path):
    loaded = Modules(tmp_path)
    yield loaded
    loaded.forget()


@pytest.fixture
def model_of(modules, request):
    """`model_of(template, block=("000", 1))` returns the class `MyModel` of the composed module."""

    def load(template, **blocks):
        name = f"mission_{request.node.originalname}"
        return modules.load(name, IMPORTS + PIPE + compose(template, **blocks)).MyModel

    return load


@pytest.fixture(params=[False, True], ids=["inline", "thread"])
def thread(request):
    """Both placements of the model: a task of the test's loop, and the real model thread."""
    return request.param
