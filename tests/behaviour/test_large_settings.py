"""What looking at large settings costs: how often a value is written as JSON, by counting rather than by timing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reactor_trio.execution.state_changes import StateChanges
from reactor_trio.interface import json_values as values
from reactor_trio.interface.json_values import MOST_BYTES, json_of


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What msgspec has written as JSON."""
    written: list[Any] = []
    encode = values.msgspec.json.encode

    def counted(value: Any, **options: Any) -> bytes:
        written.append(value)
        return encode(value, **options)

    monkeypatch.setattr(values.msgspec.json, "encode", counted)
    return written


def watched(value: Any) -> tuple[StateChanges, SimpleNamespace]:
    return StateChanges({"points": b"[]"}), SimpleNamespace(points=value)


@pytest.mark.parametrize("value", [[0.5] * 300_000, (1,) * 300_000, {str(n): n for n in range(40_000)}, "x" * 70_000])
def test_a_setting_that_is_too_large_by_its_length_is_never_serialised(written, value):
    assert json_of(value) == b""
    assert written == []


def test_a_list_of_the_most_items_that_may_fit_is_written():
    most = [1] * ((MOST_BYTES - 1) // 2)
    assert len(json_of(most)) <= MOST_BYTES
    assert len(json_of({str(n): n for n in range(5)})) > 0


def test_a_large_list_that_each_step_replaces_is_written_once_a_second(written):
    watch, state = watched([])
    for step in range(90):  # for three seconds
        state.points = [0.123456789 + step] * 10_000  # too large, but not by its length alone
        changed = watch.changes(state, step / 30)
        assert changed == ({"points": b""} if step == 0 else {})
    assert len(written) == 3


def test_a_setting_that_was_too_large_is_sent_at_once_as_a_number_and_within_a_second_as_a_small_list():
    watch, state = watched([0.123456789] * 10_000)
    assert watch.changes(state, 0.0) == {"points": b""}
    state.points = [1]
    assert watch.changes(state, 0.5) == {}
    assert watch.changes(state, 1.0) == {"points": b"[1]"}
    state.points.append(2)  # from now on at each look
    assert watch.changes(state, 1.01) == {"points": b"[1,2]"}
    state.points = [0.123456789] * 10_000
    assert watch.changes(state, 1.02) == {"points": b""}
    state.points = 7
    assert watch.changes(state, 1.03) == {"points": b"7"}
    state.points = [3]
    assert watch.changes(state, 1.04) == {"points": b"[3]"}
