"""The text of generated types: each JSON Schema's type, names, documentation, and the parts of the file."""

from __future__ import annotations

import enum
import inspect
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from reactor_trio.client import Client, Message, MessageStream, connect
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import ProtocolError
from reactor_trio.interface import (
    Audio,
    Idle,
    Input,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
)
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.typegen import LANGUAGES, types_of
from tests.golden.golden_model import Golden
from tests.support.web_client import WEB


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


@dataclass
class Point:
    """A place on the canvas."""

    x: float
    y: float = 0.0


@dataclass
class Branch:
    name: str
    children: list[Branch]


IMAGE: Any = InputField(accept=["image/*"])


class Picture(Output):
    main_video: Video
    depth: Video
    main_audio: Audio


class Eyes(Input):
    camera: Video
    microphone: Audio


class Settings(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="How bright")
    mood: Mood | None = InputField(default=None)


class Progress(ModelMessage):
    done: int
    note: str = MessageField(default="", description="For people")


class Finished(ModelMessage):
    seconds: float | None


class Painter(ReactorPipeline):
    state: Settings
    input: Eyes

    @event
    def reset(self, hard: bool = False) -> None:
        """Begin again."""

    @event
    def size(self, file: UploadedFile = IMAGE) -> int:
        return 0

    @event
    def draw(self, path: list[Point], pen: tuple[int, str] = (1, "a")) -> tuple[Point, int]:
        raise NotImplementedError

    @event
    def grow(self, tree: Branch) -> Branch:
        raise NotImplementedError

    @event
    def stop(self) -> None: ...

    def inference(self):
        while True:
            yield Idle


def schema_of(model: type, name: str) -> dict[str, Any]:
    found = {"name": name, "protocol": 1, **declaration_of(model).schema(), "schema_hash": "3f9c0d1e2b4a5968"}
    return json.loads(msgspec.json.encode(found))


def example_schemas() -> dict[str, dict[str, Any]]:
    """The schema of each example's model."""
    folders = [path.parent for path in sorted((WEB.parents[1] / "examples").glob("*/reactor.yaml"))]
    manifests = {folder.name: load_manifest(folder) for folder in folders}
    return {name: schema_of(manifest.import_quietly(), manifest.name) for name, manifest in manifests.items()}


PAINTER = schema_of(Painter, "painter")

#: A program is compiled against the same text in clients/web/test/types.
TYPESCRIPT = (WEB / "test" / "types" / "painter.ts").read_text(encoding="utf-8")

PYTHON_COMMANDS = """\
    class PainterClient(Client):
        @overload  # type: ignore[override]
        async def command(self, name: Literal["set_brightness"], /, *, brightness: float) -> None:
            \"""How bright

            Args:
                brightness: How bright (minimum 0, maximum 2, default 1)
            \"""
        @overload
        async def command(self, name: Literal["set_mood"], /, *, mood: Mood | None) -> None:
            \"""
            Args:
                mood: default null
            \"""
        @overload
        async def command(self, name: Literal["reset"], /, *, hard: bool = ...) -> None:
            \"""Begin again.

            Args:
                hard: default false
            \"""
        @overload
        async def command(self, name: Literal["size"], /, *, file: Upload) -> int:
            \"""
            Args:
                file: accept image/*
            \"""
        @overload
        async def command(self, name: Literal["draw"], /, *, path: list[Point], pen: tuple[int, str] = ...) -> list[Point2 | int]:
            \"""
            Args:
                pen: default [1, "a"]
            \"""
        @overload
        async def command(self, name: Literal["grow"], /, *, tree: Branch) -> GrowReply: ...
        @overload
        async def command(self, name: Literal["stop"], /) -> None: ...
        async def command(self, name: str, /, **arguments: Any) -> Any: ...
"""  # noqa: E501 - one line of the generated text is longer


def test_the_typescript_of_a_model():
    assert types_of(PAINTER, "typescript") == TYPESCRIPT


def test_the_commands_of_a_model_in_python():
    assert PYTHON_COMMANDS in types_of(PAINTER, "python")


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    """What the generated Python module has at run time."""
    names: dict[str, Any] = {"__name__": "painter"}
    exec(compile(types_of(PAINTER, "python"), "painter.py", "exec", dont_inherit=True), names)
    return names


def test_at_run_time_the_client_is_the_plain_one(module):
    assert module["connect"] is connect
    assert module["PainterClient"] is Client
    assert module["ProgressMessage"] is module["PainterMessage"] is Message
    assert module["PainterMessages"] is MessageStream
    assert (module["MODEL"], module["SCHEMA_HASH"]) == ("painter", "3f9c0d1e2b4a5968")


def test_its_typed_dicts_say_what_is_needed(module):
    assert module["Point"].__required_keys__ == {"x"}
    assert module["Point2"].__required_keys__ == module["Point2"].__annotations__.keys() == {"x", "y"}
    assert module["Progress"].__required_keys__ == {"done", "note"}


def test_methods_of_the_generated_client_take_what_those_of_the_client_take():
    """The generated text repeats their parameters."""
    import ast

    (checked,) = (node for node in ast.parse(types_of(PAINTER, "python")).body if isinstance(node, ast.If))
    (client,) = (node for node in checked.body if isinstance(node, ast.ClassDef) and node.name == "PainterClient")
    compared = set()
    for method in client.body:
        if method.name == "command" and method.decorator_list:
            continue
        given, real = method.args, inspect.signature(getattr(Client, method.name)).parameters.values()
        defaults = dict(
            zip([a.arg for a in reversed([*given.posonlyargs, *given.args])], reversed(given.defaults), strict=False)
        )
        defaults |= {a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}
        assert [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)] == [
            p.name for p in real if p.kind is not p.VAR_KEYWORD
        ]
        assert {name: ast.literal_eval(node) for name, node in defaults.items()} == {
            p.name: p.default for p in real if p.default is not p.empty
        }
        compared.add(method.name)
    assert compared == {"command", "frames", "push_video", "push_audio", "feedback", "messages"}


# ---- each JSON Schema -------------------------------------------------------------------------------------------------


def model_with(
    reply: object, *, properties: dict[str, Any] | None = None, description: str = "", **others: Any
) -> dict[str, Any]:
    arguments = {
        "type": "object",
        "properties": properties or {},
        "required": list(properties or ()),
        "additionalProperties": False,
    }
    command = {"name": "do", "description": description, "schema": arguments, "reply": reply}
    return {"name": "m", "schema_hash": "0" * 16, "tracks": [], "commands": [command], "messages": [], **others}


def reply_types(schema: object) -> tuple[str, str]:
    """The TypeScript and the Python of a reply."""
    script, module = (types_of(model_with(schema), language) for language in LANGUAGES)
    in_script = script.partition("reply: ")[2].partition(" };\n  };")[0]
    in_module = module.partition("/) -> ")[2].partition(": ...")[0]
    return in_script, in_module


@pytest.mark.parametrize(
    ("schema", "script", "module"),
    [
        ({}, "unknown", "Any"),
        (True, "unknown", "Any"),
        (False, "never", "Never"),
        ({"type": "string"}, "string", "str"),
        ({"type": "string", "format": "date-time"}, "string", "str"),
        ({"type": "number"}, "number", "float"),
        ({"type": "integer"}, "number", "int"),
        ({"type": "boolean"}, "boolean", "bool"),
        ({"type": "null"}, "null", "None"),
        ({"type": ["string", "null"]}, "string | null", "str | None"),
        ({"enum": ["a", 1, 0.5, True, None]}, '"a" | 1 | 0.5 | true | null', 'Literal["a", 1, True] | float | None'),
        ({"enum": [1, True, 1.0]}, "1 | true", "Literal[1, True]"),
        ({"enum": [2**60]}, "number", f"Literal[{2**60}]"),
        ({"enum": []}, "never", "Never"),
        ({"const": [1, "a"]}, '[1, "a"]', 'list[Literal[1, "a"]]'),
        ({"const": "a"}, '"a"', 'Literal["a"]'),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "number", "int | float"),
        ({"oneOf": [{"type": "string"}, {}]}, "unknown", "Any"),
        ({"anyOf": [{"type": "string"}, {"anyOf": [{"type": "null"}, {"type": "string"}]}]}, "string | null", "str | None"),
        ({"type": "array"}, "unknown[]", "list[Any]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]', 'list[Literal["a", "b"]]'),
        ({"type": "array", "maxItems": 0}, "[]", "list[Never]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 1, "items": False},
         "[string, null?]", "list[str | None]"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1}, "[string, ...unknown[]]", "list[Any]"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}}, "[string?, ...null[]]",
         "list[str | None]"),
        ({"type": "object"}, "{ [key: string]: unknown }", "dict[str, Any]"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>", "dict[str, Never]"),
        ({"type": "object", "additionalProperties": {"type": "null"}}, "{ [key: string]: null }", "dict[str, None]"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "null"}},
         "{ a?: string; [key: string]: null | string | undefined }", "dict[str, Any]"),
        ({"properties": {"a b": {}}, "required": ["a b"]}, '{ "a b": unknown }', "DoReply"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}, "A", "int"),
        ({"$ref": "#/$defs/B", "$defs": {"A": {}}}, "unknown", "Any"),
        ({"$ref": "https://example.com/a"}, "unknown", "Any"),
        ({"allOf": [{"type": "string"}]}, "unknown", "Any"),
        ({"type": "color"}, "unknown", "Any"),
        ({"enum": "a", "type": "string"}, "string", "str"),
        ({"type": "array", "prefixItems": 1, "minItems": "x", "items": [1]}, "unknown[]", "list[Any]"),
        ({"type": "object", "properties": [], "required": 3, "additionalProperties": "x"}, "{ [key: string]: unknown }",
         "dict[str, Any]"),
    ],
)  # fmt: skip
def test_the_type_of_a_schema(schema, script, module):
    assert reply_types(schema) == (script, module)


def test_a_definition_that_is_nothing_but_itself_allows_anything():
    schema = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}, "B": {"$ref": "#/$defs/A"}},
    }
    assert "export type A = unknown;" in types_of(model_with(schema), "typescript")
    assert reply_types(schema)[1] == "Any"


def test_definitions_of_one_name_with_other_content_are_two_types():
    def arguments(kind: str) -> dict[str, Any]:
        local = {"A": {"$ref": "#/$defs/B"}, "B": {"type": "object", "properties": {"x": {"type": kind}}}}
        return {"type": "object", "properties": {"at": {"$ref": "#/$defs/A"}}, "required": ["at"], "$defs": local}

    schemas = [arguments("string"), arguments("number"), arguments("string")]
    commands = [{"name": f"c{n}", "description": "", "schema": schema} for n, schema in enumerate(schemas)]
    text = types_of(model_with(None, commands=commands), "typescript")
    assert "export type B = { x?: string };\n\nexport type A = B;" in text
    assert "export type B2 = { x?: number };\n\nexport type A2 = B2;" in text
    assert [line.strip() for line in text.splitlines() if "args" in line] == [
        "c0: { args: { at: A }; reply: unknown };",
        "c1: { args: { at: A2 }; reply: unknown };",
        "c2: { args: { at: A }; reply: unknown };",
    ]


def test_a_tuple_inside_a_definition_is_sent_as_a_tuple_and_received_as_a_list():
    pair = {"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1, "items": False}
    local = {
        "A": {"type": "object", "properties": {"pair": pair, "more": {"type": "array", "items": {"$ref": "#/$defs/A"}}}}
    }
    reference = {"$ref": "#/$defs/A", "$defs": local}
    arguments = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "$defs": local}
    text = types_of(
        model_with(reference, commands=[{"name": "do", "description": "", "schema": arguments, "reply": reference}]),
        "python",
    )
    assert 'class A(TypedDict):\n    pair: NotRequired[tuple[str]]\n    more: NotRequired["list[A]"]\n' in text
    assert 'class A2(TypedDict):\n    pair: NotRequired[list[str]]\n    more: NotRequired["list[A2]"]\n' in text
    assert "*, a: A) -> A2:" in text


def test_long_values_are_cut_in_the_documentation():
    text = types_of(model_with(None, properties={"a": {"type": "array", "default": list(range(1000))}}), "typescript")
    (line,) = (line for line in text.splitlines() if "@default" in line)
    assert line.endswith("... */")
    assert len(line) < 120


@pytest.mark.parametrize(
    ("name", "interface", "constant"),
    [
        ("my-model", "MyModel", "myModel"),
        ("pipeline:NeuralCA", "NeuralCA", "neuralCA"),
        ("http_status", "HttpStatus", "httpStatus"),
        ("GPT", "GPT", "gpt"),
        ("3d", "Model3d", "model3d"),
        ("世界", "Model", "model"),
        ("class", "Class", "classModel"),
        ("record", "Record2", "record2"),
    ],
)
def test_names_of_the_interface_and_the_constant(name, interface, constant):
    text = types_of(model_with(None, name=name), "typescript")
    assert f"export interface {interface} {{" in text
    assert f"export const {constant}: ModelRef<{interface}> = {{ name: {json.dumps(name, ensure_ascii=False)}," in text


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "number", "minimum": 0, "maximum": 2.5}, '{ min: 0, max: 2.5, step: "any" }'),
        ({"type": "number", "minimum": -1.0, "maximum": 1, "multipleOf": 0.25}, "{ min: -1, max: 1, step: 0.25 }"),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, "{ min: 1, max: 9, step: 1 }"),
        ({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 4}, {"type": "null"}]}, "{ min: 1, max: 4, step: 1 }"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, None),
        ({"type": "number", "minimum": 0}, None),
        ({"type": "number", "minimum": 1, "maximum": 1}, None),
        ({"type": "integer", "minimum": True, "maximum": "9"}, None),
        ({"type": "string"}, None),
        (True, None),
    ],
)
def test_the_range_of_a_setting_is_data(schema, written):
    def command(name, **properties):
        return {"name": name, "description": "", "schema": {"type": "object", "properties": properties}}

    commands = [command("set_x", x=schema), command("jump", x=schema), command("set_both", x=schema, y=schema)]
    text = types_of(model_with(None, name="painter", commands=commands), "typescript")
    found = re.findall(r"painterRanges = \{\n(.*)\n\} as const;\n$", text, re.DOTALL)
    assert found == ([] if written is None else [f"  x: {written},"])


def test_a_model_without_commands_and_one_with_one_command():
    none = types_of(model_with(None, commands=[]), "python")
    assert "        async def command(self, name: Never, /) -> None: ...  # type: ignore[override]\n" in none
    assert "overload" not in none
    assert "overload" not in types_of(model_with(None), "python")


def test_an_argument_that_is_no_parameter_becomes_a_typed_dict():
    text = types_of(
        model_with({"type": "null"}, properties={"a-b": {"type": "integer"}, "name": {"type": "string"}}), "python"
    )
    assert 'DoArguments = TypedDict("DoArguments", {\n    "a-b": int,\n    "name": str,\n})' in text
    assert 'name: Literal["do"], /, **arguments: Unpack[DoArguments]) -> None: ...' in text


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({}, "KeyError: 'commands'"),
        (
            model_with(None, tracks=[{"name": "a", "kind": "smell", "direction": "out"}]),
            "a track is video or audio, not 'smell'",
        ),
        (model_with(None, name=1), "expected text, not 1"),
        (model_with(None, commands=3), "TypeError"),
    ],
)
def test_json_that_is_not_a_models_schema_is_refused(schema, says):
    with pytest.raises(ProtocolError, match="this is not the schema of a model: ") as refused:
        types_of(schema, "typescript")
    assert says in str(refused.value)


def test_a_schema_that_is_nested_too_deeply_is_refused():
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ProtocolError, match="nested too deeply"):
        types_of(model_with(schema), "python")


def test_the_text_does_not_depend_on_the_process():
    """Neither on hashes nor on the Unicode version; it has no time stamp."""
    program = (
        "import json, sys; from reactor_trio.typegen import types_of; schema = json.load(sys.stdin); "
        "sys.stdout.buffer.write((types_of(schema, 'typescript') + types_of(schema, 'python')).encode())"
    )
    schema = schema_of(Golden, "golden")
    expected = types_of(schema, "typescript") + types_of(schema, "python")
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(schema).encode(), capture_output=True, check=True
    )
    assert done.stdout.decode() == expected
