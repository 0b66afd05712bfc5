"""Reads what `GET /schema` answers: the JSON Schemas of a model's commands, replies and messages become types.

Authors can put any JSON Schema into a declaration (`msgspec.Meta`), so every schema has a type: where this module does not
know a keyword, the type allows more, in the end anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from reactor_trio.errors import ProtocolError
from reactor_trio.typegen.schema_types import (
    Command,
    Constant,
    Definition,
    Doc,
    ListOf,
    Message,
    ModelTypes,
    Never,
    ObjectOf,
    Property,
    Ref,
    Scalar,
    ScalarKind,
    SchemaType,
    TrackKind,
    TupleOf,
    Union,
    Unknown,
    Upload,
    union_of,
)
from reactor_trio.typegen.slider_ranges import slider_ranges

#: keywords that a type does not express; they are documented, in this order
_NOTED: Final = (
    "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "format", "contentEncoding", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "accept",
)  # fmt: skip
#: most characters of a value in the documentation, for instance of a default
_LONGEST_NOTE: Final = 80
_SCALARS: Final[dict[str, ScalarKind]] = {
    "string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "null": "null",
}  # fmt: skip
_REFERENCE: Final = "#/$defs/"

_Schema = Mapping[str, Any]


def read_model(schema: Mapping[str, Any]) -> ModelTypes:
    """Return the types of a model. `schema` is the answer to `GET /schema`. Raises ProtocolError if it is something else."""
    try:
        return _read_model(schema)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"this is not the schema of a model: {type(error).__name__}: {error}") from None
    except RecursionError:
        raise ProtocolError("the schema is nested too deeply to make types of it") from None


def _read_model(schema: Mapping[str, Any]) -> ModelTypes:
    reader = _Reader()
    commands = {
        command["name"]: Command(
            _text(command["name"]),
            Doc(_text(command["description"])),
            reader.object_type(command["schema"]),
            reader.top(command.get("reply", True)),
        )
        for command in schema["commands"]
    }
    messages = {
        message["name"]: Message(
            _text(message["name"]), Doc(_described(message["schema"])), reader.object_type(message["schema"])
        )
        for message in schema["messages"]
    }
    tracks = schema["tracks"]
    return ModelTypes(
        _text(schema["name"]), _text(schema["schema_hash"]), tuple(commands.values()), tuple(messages.values()),
        {_text(track["name"]): _kind(track["kind"]) for track in tracks if track["direction"] == "out"},
        {_text(track["name"]): _kind(track["kind"]) for track in tracks if track["direction"] == "in"},
        reader.definitions(), slider_ranges(schema["commands"]),
    )  # fmt: skip


class _Reader:
    """Reads JSON Schemas one after the other and collects the definitions to which they refer.

    Each schema has its own `$defs`. Definitions of the same name and with the same content are one; content means the
    definition and all others that it needs.
    """

    def __init__(self) -> None:
        self._definitions: list[Definition] = []
        self._places: dict[tuple[str, str], int] = {}

    def definitions(self) -> tuple[Definition, ...]:
        """Return the definitions. One that is nothing but itself, such as `A = A | null`, allows anything."""
        return tuple(
            Definition(each.name, Unknown(), each.doc) if self._is_empty_circle(place) else each
            for place, each in enumerate(self._definitions)
        )

    def top(self, schema: object) -> SchemaType:
        """Return the type of a whole schema with its `$defs`."""
        local = schema.get("$defs") if isinstance(schema, Mapping) else None
        return self._read(schema, local if isinstance(local, Mapping) else {})

    def object_type(self, schema: object) -> SchemaType:
        """Return the type of the schema of an object: an ObjectOf or a Ref to one. Any other schema allows every object."""
        found = self.top(schema)
        meant = found
        if isinstance(found, Ref):
            meant = self._definitions[found.definition].type
        return found if isinstance(meant, ObjectOf) else ObjectOf()

    def _read(self, schema: object, local: _Schema) -> SchemaType:
        if schema is False:
            return Never()
        if not isinstance(schema, Mapping):
            return Unknown()
        if schema.get("x-reactor") == "upload":
            return Upload()
        if "const" in schema:
            return _constant(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return union_of([_constant(value) for value in values])
        if isinstance(reference := schema.get("$ref"), str):
            return self._refer(reference, local)
        for key in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(key), list):
                return union_of([self._read(member, local) for member in members])
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list):
            return union_of([self._read({**schema, "type": one}, local) for one in kind])
        match kind:
            case "array":
                return self._array(schema, local)
            case "object":
                return self._object(schema, local)
            case str() if kind in _SCALARS:
                return Scalar(_SCALARS[kind])
        return Unknown()

    def _array(self, schema: _Schema, local: _Schema) -> SchemaType:
        first = schema.get("prefixItems")
        least, most = _count(schema.get("minItems")) or 0, _count(schema.get("maxItems"))
        kinds = [self._read(item, local) for item in first] if isinstance(first, list) else []
        if not kinds and most != 0:
            return ListOf(self._read(schema.get("items", True), local))
        rest: SchemaType | None = self._read(schema.get("items", True), local)
        if rest == Never() or (most is not None and most <= len(kinds)):
            rest = None
        kinds = kinds[:most]
        return TupleOf(tuple(kinds), min(least, len(kinds)), rest)

    def _object(self, schema: _Schema, local: _Schema) -> SchemaType:
        given, needed, others = (schema.get(key) for key in ("properties", "required", "additionalProperties"))
        required = needed if isinstance(needed, list) else []
        properties = tuple(
            Property(_text(name), self._read(value, local), name in required, _documented(value))
            for name, value in (given if isinstance(given, Mapping) else {}).items()
        )
        rest = self._read(others, local) if isinstance(others, Mapping) else None
        return ObjectOf(properties, rest, closed=others is False)

    def _refer(self, reference: str, local: _Schema) -> SchemaType:
        name = reference.removeprefix(_REFERENCE)
        if not reference.startswith(_REFERENCE) or name not in local:
            return Unknown()
        needed: dict[str, object] = {}
        _collect(name, local, needed)
        key = name, json.dumps(_with_integers(needed), sort_keys=True)
        if key not in self._places:
            place = self._places[key] = len(self._definitions)
            self._definitions.append(Definition(name, Unknown(), Doc(_described(local[name]))))
            self._definitions[place] = Definition(name, self._read(local[name], local), Doc(_described(local[name])))
        return Ref(self._places[key])

    def _is_empty_circle(self, place: int) -> bool:
        """Whether the definition leads back to itself without an array or an object in between."""
        seen: set[int] = set()
        waiting = [self._definitions[place].type]
        while waiting:
            match waiting.pop():
                case Ref(other):
                    if other == place:
                        return True
                    if other not in seen:
                        seen.add(other)
                        waiting.append(self._definitions[other].type)
                case Union(members):
                    waiting += members
        return False


def _collect(name: str, local: _Schema, found: dict[str, object]) -> None:
    """Put the definition `name`, and all that it refers to, into `found`."""
    if name in found or name not in local:
        return
    found[name] = local[name]
    waiting: list[object] = [local[name]]
    while waiting:
        match waiting.pop():
            case Mapping() as schema:
                reference = schema.get("$ref")
                if isinstance(reference, str) and reference.startswith(_REFERENCE):
                    _collect(reference.removeprefix(_REFERENCE), local, found)
                waiting += schema.values()
            case list() as items:
                waiting += items


def _constant(value: object) -> SchemaType:
    match value:
        case None:
            return Constant("null", None)
        case bool():
            return Constant("boolean", value)
        case int() | float():
            plain = _with_integers(value)
            return Constant("integer" if isinstance(plain, int) else "number", plain)
        case str():
            return Constant("string", value)
        case list():
            items = tuple(_constant(item) for item in value)
            return TupleOf(items, len(items))
        case Mapping():
            return ObjectOf(tuple(Property(name, _constant(item), True) for name, item in value.items()), closed=True)
    return Unknown()


def _documented(schema: object) -> Doc:
    """Return what the schema of a property says beside its type."""
    if not isinstance(schema, Mapping):
        return Doc()
    notes = _limits(schema)
    members = schema.get("anyOf")
    if isinstance(members, list):
        others = [member for member in members if isinstance(member, Mapping) and member.get("type") != "null"]
        if len(others) == 1:
            notes |= _limits(others[0])
    if "default" in schema:
        notes["default"] = _cut(json.dumps(_with_integers(schema["default"]), ensure_ascii=False))
    return Doc(_described(schema), tuple(notes.items()))


def _limits(schema: _Schema) -> dict[str, str]:
    notes = {"integer": ""} if schema.get("type") == "integer" and "enum" not in schema else {}
    left_out = ("minItems", "maxItems") if "prefixItems" in schema else ()  # the type says it
    return notes | {key: _cut(_shown(schema[key])) for key in _NOTED if key in schema and key not in left_out}


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(_with_integers(value), ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_NOTE else text[:_LONGEST_NOTE] + "..."


def _with_integers(value: Any) -> Any:
    """Return JSON data with whole numbers as integers: JSON does not distinguish 1 from 1.0, so the text must not."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _with_integers(item) for key, item in value.items()}
    return value


def _described(schema: object) -> str:
    text = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return text if isinstance(text, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r}")
    return value


def _kind(value: object) -> TrackKind:
    match value:
        case "video":
            return "video"
        case "audio":
            return "audio"
    raise ValueError(f"a track is video or audio, not {value!r}")
