"""Module paths of earlier versions still import, and say which path replaces them."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reactor_trio.headless", "reactor_trio.offline"),
        ("reactor_trio.server.manifest", "reactor_trio.configuration.manifest"),
        ("reactor_trio.server.settings", "reactor_trio.configuration.settings"),
        ("reactor_trio.server.tickets", "reactor_trio.edge.tickets"),
    ],
)
def test_an_earlier_path_is_the_module_that_replaces_it(old, new, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated: import {new}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(new)


def test_an_earlier_name_is_the_class_that_replaces_it():
    from reactor_trio import pacing

    for old, new in pacing.RENAMED.items():
        with pytest.warns(DeprecationWarning, match=f"reactor_trio.pacing.{old} is deprecated: use {new}"):
            assert getattr(pacing, old) is getattr(pacing, new)
    with pytest.raises(AttributeError, match=r"module 'reactor_trio.pacing' has no attribute 'Tempoo'"):
        _ = pacing.Tempoo
