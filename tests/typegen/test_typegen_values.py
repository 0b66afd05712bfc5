"""A value that a generated type allows is taken by the server but for limits, and what the type forbids is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from reactor_trio.interface.command_arguments import Arguments
from reactor_trio.typegen import types_of
from reactor_trio.typegen.read_schema import read_model
from tests.typegen.schema_makers import allows, arguments, document, limited, plain, taken, values

some = hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
many = hypothesis.settings(max_examples=2000, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))


def verdicts(given: Arguments, seed: int, **how: bool) -> Iterator[tuple[Any, bool, bool]]:
    """Values, whether the type allows each, and whether the server takes it."""
    model = read_model(document({"made": given}))
    for value in values(given, seed, 6):
        yield value, allows(model, model.commands[0].arguments, value, **how), taken(given, value)


def check_plain(given: Arguments, seed: int) -> None:
    for value, allowed, accepted in verdicts(given, seed, fraction=False):
        assert allowed == accepted, (json.dumps(given.schema()), value)


def check_limited(given: Arguments, seed: int) -> None:
    for value, allowed, accepted in verdicts(given, seed):
        assert allowed or not accepted, (json.dumps(given.schema()), value)


@some
@hypothesis.given(arguments(plain), st.integers(0, 2**32))
def test_without_limits_the_server_takes_what_the_type_allows(given, seed):
    check_plain(given, seed)


@some
@hypothesis.given(arguments(limited), st.integers(0, 2**32))
def test_with_limits_the_server_takes_only_what_the_type_allows(given, seed):
    check_limited(given, seed)


@pytest.mark.soak
@many
@hypothesis.given(arguments(plain), st.integers(0, 2**32))
def test_without_limits_in_many_schemas(given, seed):
    check_plain(given, seed)


@pytest.mark.soak
@many
@hypothesis.given(arguments(limited), st.integers(0, 2**32))
def test_with_limits_in_many_schemas(given, seed):
    check_limited(given, seed)


@some
@hypothesis.given(arguments(limited))
def test_the_same_schema_gives_the_same_text(given):
    """Also if JSON was written by another program, which writes 1.0 as 1."""
    schema = document({"made": given})
    rewritten = json.loads(json.dumps(schema).replace(".0,", ",").replace(".0}", "}"))
    for language in ("typescript", "python"):
        text = types_of(schema, language)
        assert text == types_of(rewritten, language)
        assert text == types_of(json.loads(json.dumps(schema)), language)
