"""Generated Python under mypy and pyright, both strict: they allow what is right and refuse each of the uses that are wrong.

In `uses_of_types.py` each wrong use has a `# type: ignore`, and both checkers are asked to refuse one that is not needed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden_model import Golden
from tests.support.type_checkers import mypy_errors, pyright_errors
from tests.typegen.test_typegen_text import PAINTER, example_schemas, model_with, schema_of

from reactor_trio.typegen import types_of

USES = (Path(__file__).parent / "uses_of_types.py").read_text(encoding="utf-8")
#: Other shapes: no command, one command, names that are no parameters, and types that need themselves.
TREE = {
    "type": "object",
    "properties": {"a-b": {"type": "array", "items": {"$ref": "#/$defs/T"}}, "int": {"type": "integer"}},
}
ROW = {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/R"}], "minItems": 1, "items": False}
SCHEMAS = {
    "painter": PAINTER,
    "none": model_with(None, commands=[]),
    "one": model_with({"type": "null"}, properties={"a": {"type": "integer"}}, description='Says "hello" \\'),
    "odd": model_with(
        {"$ref": "#/$defs/T", "$defs": {"T": TREE}}, properties={"a-b": {}, "name": {}, "__x": {}, "int": {}}
    ),
    "row": model_with({"$ref": "#/$defs/R", "$defs": {"R": ROW}}),
    "golden": schema_of(Golden, "golden"),
}


@pytest.mark.needs("mypy")
@pytest.mark.needs("pyright")
@pytest.mark.parametrize("errors", [mypy_errors, pyright_errors])
def test_right_uses_pass_and_each_wrong_one_is_an_error(errors, tmp_path):
    assert USES.count("  # type: ignore\n") >= 25
    for name, schema in (SCHEMAS | example_schemas()).items():
        (tmp_path / f"{name}.py").write_text(types_of(schema, "python"), encoding="utf-8")
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    (tmp_path / "unneeded.py").write_text(USES.replace('brightness="1"', "brightness=1"), encoding="utf-8")
    (error,) = errors(tmp_path)
    assert error.startswith("unneeded.py:")
    assert "ignore" in error
