"""What authors write cannot leave its place: descriptions, choices and names of any text give the same declarations."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from reactor_trio.typegen import types_of
from reactor_trio.typegen.source_text import quoted, remark, type_name, value_name
from tests.typegen.typescript_reader import read_typescript

SNIPPETS = (
    "*/", "/*", "//", "*\\/", '"', "'", "`", "\\", "\\u0022", "\\u{22}", "\n", "\r\n", "\u2028", "\u2029", "\x85",
    "\x0b", "\x00", "\u202e", "\ufeff", "${x}", "#", '"""', '\\"""', "__proto__", "constructor", "class", "default",
    "None", "int", "str", "self", "name", "type", "async", "@ts-ignore", "@ts-expect-error", "@ts-nocheck",
    "type: ignore", "mypy: ignore-errors", "pyright: basic", "/// <reference />", "😀", "ß", "世界", "\u0301",
    "\U000e0001", "]: any }", "}; export const x = 1; //", "reactor.error", "Literal", "Record", "__x", "1", "",
)  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=3)), max_size=4).map("".join)
names = st.lists(texts, min_size=1, max_size=4, unique=True)


@st.composite
def hostile(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of a model in which every text is hostile."""

    def schema_of() -> dict[str, Any]:
        return draw(
            st.one_of(
                st.builds(lambda found: {"enum": found}, names),
                st.builds(lambda found: {"const": found}, texts),
                st.just({"$ref": f"#/$defs/{reference}"}),
                st.builds(lambda text: {"type": "string", "pattern": text, "default": text, "format": text}, texts),
            )
        ) | {"description": draw(texts)}

    reference = draw(texts)
    local = {reference: {"type": "object", "description": draw(texts), "properties": {
        name: {"enum": draw(names), "description": draw(texts)} for name in draw(names)}}}  # fmt: skip

    def object_of() -> dict[str, Any]:
        properties = {name: schema_of() for name in draw(names)}
        required = [name for name in properties if draw(st.booleans())]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
            "$defs": local,
        }

    return {
        "name": draw(texts),
        "schema_hash": draw(texts),
        "tracks": [
            {
                "name": name,
                "kind": draw(st.sampled_from(["video", "audio"])),
                "direction": draw(st.sampled_from(["in", "out"])),
            }
            for name in draw(names)
        ],
        "commands": [
            {"name": name, "description": draw(texts), "schema": object_of(), "reply": {**schema_of(), "$defs": local}}
            for name in draw(names)
        ],
        "messages": [{"name": name, "schema": {**object_of(), "description": draw(texts)}} for name in draw(names)],
    }


#: without shrinking, which takes minutes here
how = hypothesis.settings(
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
some = hypothesis.settings(how, max_examples=60, derandomize=True)
many = hypothesis.settings(how, max_examples=600)


def full_of(text: str) -> dict[str, Any]:
    """The schema of a model in which every text is this one."""
    local = {text: {"type": "object", "description": text, "properties": {text: {"enum": [text], "description": text}}}}
    referring = {"$ref": f"#/$defs/{text}", "description": text}
    arguments = {
        "type": "object", "description": text, "properties": {text: referring}, "required": [text], "$defs": local,
        "additionalProperties": False,
    }  # fmt: skip
    return {
        "name": text, "schema_hash": text, "tracks": [{"name": text, "kind": "video", "direction": "out"}],
        "commands": [{"name": text, "description": text, "schema": arguments, "reply": {"const": text}}],
        "messages": [{"name": text, "schema": arguments}],
    }  # fmt: skip


@pytest.mark.parametrize("text", SNIPPETS, ids=range(len(SNIPPETS)))
def test_one_text_everywhere(text):
    check_typescript(full_of(text))
    check_python(full_of(text))


# ---- TypeScript -------------------------------------------------------------------------------------------------------


def expected(schema: dict[str, Any], named: str) -> Any:
    """What the reader should give for a schema of `hostile`; `named` is the type of references."""
    if "$ref" in schema:
        return named
    if "properties" in schema:
        required = schema.get("required", [])
        return {
            name if name in required else ("maybe", name): expected(each, named)
            for name, each in schema["properties"].items()
        }
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if choices is None:
        return "string"
    constants = [("constant", choice) for choice in choices]
    return constants[0] if len(constants) == 1 else ("union", *constants)


def check_typescript(schema: dict[str, Any]) -> None:
    found = read_typescript(types_of(schema, "typescript"))
    assert len(found["types"]) <= 1
    named = next(iter(found["types"]), "")
    for definition in found["types"].values():
        (local,) = schema["commands"][0]["schema"]["$defs"].values()
        assert definition == expected(local, named)
    interface, body = found["interface"]
    assert found["constant"][1:] == (schema["name"], schema["schema_hash"])
    assert found["constant"][0] != interface
    tracks = {
        way: {t["name"]: ("constant", t["kind"]) for t in schema["tracks"] if t["direction"] == way} for way in ("out", "in")
    }
    nothing = ("Record", "never", "never")
    assert body == {
        "name": ("constant", schema["name"]),
        "commands": {
            each["name"]: {"args": expected(each["schema"], named), "reply": expected(each["reply"], named)}
            for each in schema["commands"]
        },
        "messages": {each["name"]: expected(each["schema"], named) for each in schema["messages"]},
        "outputs": tracks["out"] or nothing,
        "inputs": tracks["in"] or nothing,
    }
    for comment in found["comments"]:
        assert not any(word in comment for word in ("/** @ts", " @ts", "\n", "\u2028", "\u202e"))


@some
@hypothesis.given(hostile())
def test_typescript_declares_what_the_schema_says(schema):
    check_typescript(schema)


@pytest.mark.soak
@many
@hypothesis.given(hostile())
def test_typescript_of_many_schemas(schema):
    check_typescript(schema)


# ---- Python -----------------------------------------------------------------------------------------------------------


def check_python(schema: dict[str, Any]) -> None:
    text = types_of(schema, "python")
    tree = ast.parse(text)
    kinds = {type(node).__name__ for node in tree.body}
    assert kinds <= {"Expr", "ImportFrom", "AnnAssign", "Assign", "ClassDef", "If"}
    assert all(isinstance(node.value, ast.Constant) for node in tree.body if isinstance(node, ast.Expr))
    assert all(isinstance(node.value, ast.Call) for node in tree.body if isinstance(node, ast.Assign))
    values = {node.target.id: node.value for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert (ast.literal_eval(values["MODEL"]), ast.literal_eval(values["SCHEMA_HASH"])) == (
        schema["name"],
        schema["schema_hash"],
    )
    comments = {
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    }
    assert comments == {"# type: ignore[override]", "# at run time they are the plain client's"}
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    methods = [node for node in ast.walk(checked) if isinstance(node, ast.AsyncFunctionDef) and node.name == "command"]
    commands = [literal(node.args.posonlyargs[1].annotation) for node in methods]
    assert [each for each in commands if each is not None] == [each["name"] for each in schema["commands"]]
    kinds_of_messages = [
        literal(node.annotation)
        for one in checked.body if isinstance(one, ast.ClassDef)
        for node in one.body if isinstance(node, ast.AnnAssign) and node.target.id == "type"
    ]  # fmt: skip
    assert kinds_of_messages == [*(each["name"] for each in schema["messages"]), "reactor.error"]
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(tree, "made.py", "exec", dont_inherit=True), names)
    keys = {
        frozenset(value.__annotations__)
        for value in names.values()
        if isinstance(value, type) and hasattr(value, "__total__")
    }
    for message in schema["messages"]:
        assert frozenset(message["schema"]["properties"]) in keys


def literal(annotation: Any) -> str | None:
    """The text of `Literal["text"]`."""
    return annotation.slice.value if isinstance(annotation, ast.Subscript) else None


@some
@hypothesis.given(hostile())
def test_python_declares_what_the_schema_says(schema):
    check_python(schema)


@pytest.mark.soak
@many
@hypothesis.given(hostile())
def test_python_of_many_schemas(schema):
    check_python(schema)


# ---- the parts --------------------------------------------------------------------------------------------------------


@hypothesis.given(st.text())
def test_a_string_literal_is_read_back(text):
    assert ast.literal_eval(quoted(text, "\\U{:08x}")) == text
    assert len(quoted(text, "\\U{:08x}").splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a */ b", "a *\\/ b"),
        ("**/", "**\\/"),
        (" two\nlines\t ", "two lines"),
        ("@ts-expect-error", "\\@ts-expect-error"),
        ("see {@link x} or mail a@b.c", "see {\\@link x} or mail a@b.c"),
        ("a\u202eb\u200bc\x00", "a\\u202eb\\u200bc\\u0000"),
        ("\U000e0001", "U+E0001"),
    ],
)
def test_a_remark_is_one_line_that_cannot_end_its_comment(text, shown):
    assert remark(text) == shown


@hypothesis.given(st.text())
def test_a_name_is_ascii_and_no_keyword(text):
    name = type_name(text, "Type")
    assert name.isascii()
    assert name.isidentifier()
    assert name[0].isupper()
    assert value_name(name)[0].islower()
