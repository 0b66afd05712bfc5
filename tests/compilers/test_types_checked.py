"""Generated Python under mypy and pyright, both strict: they allow what is right and refuse each of the uses that are wrong.

In `uses_of_types.py` each wrong use has a `# type: ignore`, and both checkers are asked to refuse one that is not needed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden_model import Golden
from tests.support.type_checkers import mypy_errors, pyright_errors
from tests.typegen.test_typegen_text import PAINTER, model_with, schema_of

from reactor_trio.typegen import types_of

USES = (Path(__file__).parent / "uses_of_types.py").read_text(encoding="utf-8")
CHECKERS = pytest.mark.parametrize("errors", [mypy_errors, pyright_errors])


@CHECKERS
def test_right_uses_pass_and_each_wrong_one_is_an_error(errors, tmp_path):
    assert USES.count("  # type: ignore\n") >= 25
    (tmp_path / "painter.py").write_text(types_of(PAINTER, "python"), encoding="utf-8")
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    assert errors(tmp_path) == []
    (tmp_path / "uses.py").write_text(USES.replace('brightness="1"', "brightness=1"), encoding="utf-8")
    (error,) = errors(tmp_path)
    assert "ignore" in error


@CHECKERS
def test_modules_of_other_shapes_pass(errors, tmp_path):
    """No command, one command, names that are no parameters, and a type that needs itself."""
    tree = {
        "type": "object",
        "properties": {"a-b": {"type": "array", "items": {"$ref": "#/$defs/T"}}, "int": {"type": "integer"}},
    }
    row = {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/R"}], "minItems": 1, "items": False}
    schemas = {
        "none": model_with(None, commands=[]),
        "one": model_with({"type": "null"}, properties={"a": {"type": "integer"}}, description='Says "hello" \\'),
        "odd": model_with(
            {"$ref": "#/$defs/T", "$defs": {"T": tree}}, properties={"a-b": {}, "name": {}, "__x": {}, "int": {}}
        ),
        "row": model_with({"$ref": "#/$defs/R", "$defs": {"R": row}}),
        "golden": schema_of(Golden, "golden"),
    }
    for name, schema in schemas.items():
        (tmp_path / f"{name}.py").write_text(types_of(schema, "python"), encoding="utf-8")
    assert errors(tmp_path) == []
