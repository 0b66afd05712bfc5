"""Generated TypeScript under the compiler. What a program may do with it is in clients/web/test/types."""

from __future__ import annotations

import importlib
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.support.type_checkers import tsc_errors
from tests.typegen.schema_makers import allows, arguments, document, limited, taken, values
from tests.typegen.test_typegen_hostile import hostile
from tests.typegen.test_typegen_text import example_schemas, schema_of

from reactor_trio.interface.command_arguments import Arguments
from reactor_trio.interface.model import Model
from reactor_trio.interface.module_classes import all_subclasses
from reactor_trio.typegen import types_of
from reactor_trio.typegen.read_schema import read_model

#: tests with models that declare much
MODULES = (
    "tests.golden.golden_model", "tests.protocol.test_asyncapi", "tests.fuzz.fuzz_server", "tests.support.offline_models",
    "tests.behaviour.test_state_and_commands", "tests.behaviour.test_messages", "tests.behaviour.test_upload_behaviour",
)  # fmt: skip
#: a model's interface is a shape that `connect` takes
FITS = """
import type {{ ModelShape }} from "reactor-trio";
export type Fits = {name} extends ModelShape ? true : never;
export const fits: Fits = true;
"""
#: schemas in one file
BATCH = 50

generated = hypothesis.settings(
    deadline=None, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck), database=None
)


def compiled(schema: dict[str, Any]) -> str:
    text = types_of(schema, "typescript")
    return text + FITS.format(name=text.partition("export interface ")[2].partition(" ")[0])


def test_the_types_of_examples_and_test_models_compile(tmp_path):
    """And the package's own, which no other test here checks again."""
    for module in MODULES:
        importlib.import_module(module)
    models = [each for each in all_subclasses(Model) if each.__module__ in MODULES and "<locals>" not in each.__qualname__]
    examples = example_schemas()
    assert (len(examples) >= 8, len(models) > 10) == (True, True)
    schemas = examples | {f"model{n}": schema_of(model, model.__name__) for n, model in enumerate(models)}
    assert tsc_errors(tmp_path, {f"{name}.ts": compiled(schema) for name, schema in schemas.items()}) == {}


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.soak)])
def test_hostile_texts_compile(count, tmp_path):
    files: dict[str, str] = {}

    @hypothesis.settings(generated, max_examples=count)
    @hypothesis.given(hostile())
    def make(schema):
        files[f"hostile{len(files)}.ts"] = compiled(schema)

    make()
    assert len(files) > count / 2
    assert tsc_errors(tmp_path, files, skipLibCheck=True) == {}


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.soak) for part in (2, 3))])
def test_the_compiler_and_the_server_agree_about_values(part, tmp_path):
    """500 schemas, some values for each: what the type forbids the server refuses, and the compiler reads the type so."""
    made: list[tuple[Arguments, int]] = []

    @hypothesis.settings(generated, max_examples=500)
    @hypothesis.given(arguments(limited), st.integers(0, 2**32))
    def make(given, seed):
        made.append((given, seed))

    make()
    assert len(made) == 500
    files: dict[str, str] = {}
    cases: dict[tuple[str, int], tuple[Any, bool, bool]] = {}
    for start in range(0, len(made), BATCH):
        batch = {f"c{n}": each for n, each in enumerate(made[start : start + BATCH])}
        schema = document({name: given for name, (given, _) in batch.items()})
        model, name = read_model(schema), f"batch{start}.ts"
        lines = compiled(schema).splitlines()
        for command, (given, seed) in zip(model.commands, batch.values(), strict=True):
            for value in values(given, seed, 2):
                lines.append(
                    f'export const v{len(lines)}: Made["commands"]["{command.name}"]["args"] = {json.dumps(value)};'
                )
                allowed = allows(model, command.arguments, value, extra=False)
                cases[name, len(lines)] = value, allowed, taken(given, value)
                assert allows(model, command.arguments, value) or not taken(given, value), (given.schema(), value)
        files[name] = "\n".join(lines) + "\n"
    errors = tsc_errors(tmp_path, files, isolatedDeclarations=False, skipLibCheck=True)
    assert {(name, line) for name, lines in errors.items() for line in lines} <= cases.keys()
    wrong = [
        (files[name].splitlines()[line - 1], errors.get(name, {}).get(line))
        for (name, line), (_, allowed, _) in cases.items()
        if allowed == (line in errors.get(name, {}))
    ]
    assert wrong == []
    verdicts = [(allowed, accepted) for _, allowed, accepted in cases.values()]
    assert all(verdicts.count(each) > 20 for each in [(True, True), (True, False), (False, False)])
