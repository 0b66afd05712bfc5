"""The path of a NaN in a message: found without a look at what a sender can make expensive."""

from __future__ import annotations

import math

import pytest

from reactor_trio.protocol.text import non_finite_path


class Key(str):
    """A key that counts how often a text was made of it."""

    written = 0

    def __format__(self, spec: str) -> str:
        Key.written += 1
        return super().__format__(spec)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"),
        ({"a": [1, {"b": -math.inf}]}, "$.a[1].b"),
        ([[[]], [0.0, [math.inf]], math.nan], "$[1][1][0]"),
        ({"a": [1.5, "NaN", None, True]}, None),
        ({1: math.nan}, "$[1]"),
    ],
)
def test_the_first_one_is_named_by_its_path(value, path):
    assert non_finite_path(value) == path


def test_no_further_than_the_depth():
    value: object = math.nan
    for _ in range(32):
        value = [value]
    assert non_finite_path(value) == "$" + "[0]" * 32
    assert non_finite_path([value]) is None


def test_only_the_path_of_the_found_one_is_written(monkeypatch):
    monkeypatch.setattr(Key, "written", 0)
    value = [*({Key("k" * 1000): [[] for _ in range(100)]} for _ in range(50)), {Key("z"): [[math.nan]]}]
    assert non_finite_path(value) == "$[50].z[0][0]"
    assert Key.written == 1
