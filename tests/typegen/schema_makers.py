"""Random arguments for commands, random JSON values for them, and which values a generated type allows.

`plain` annotations have no limit that a type cannot express: a server takes exactly the values that the type allows. For
`limited` ones a server takes only values that the type allows, and refuses some of them.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
import json
import random
import string
import typing
import uuid
from typing import Annotated, Any, Literal

import msgspec
from hypothesis import reject
from hypothesis import strategies as st

from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface import UploadedFile
from reactor_trio.interface.command_arguments import Arguments, Parameter, inline_schema
from reactor_trio.interface.input_field import MISSING, FieldInfo
from reactor_trio.loadtest.random_commands import NoValue, Repertoire
from reactor_trio.typegen.schema_types import (
    Constant,
    ListOf,
    ModelTypes,
    ObjectOf,
    Ref,
    Scalar,
    SchemaType,
    TupleOf,
    Union,
    Unknown,
    Upload,
)

_serial = itertools.count()
names = st.text(string.ascii_lowercase + "_", min_size=1, max_size=6).map(lambda text: f"a{text}1")
words = st.sampled_from(["day", "night", "", "a b", 'say "x"', "\\", "ß", "*/"])

# ---- annotations ------------------------------------------------------------------------------------------------------


def enums() -> st.SearchStrategy[Any]:
    kinds = st.sampled_from([words, st.integers(-3, 3)])
    values = kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=3, unique=True))
    return values.map(lambda found: enum.Enum(f"Choice{next(_serial)}", {f"M{n}": value for n, value in enumerate(found)}))


def literals() -> st.SearchStrategy[Any]:
    members = st.lists(st.one_of(words, st.integers(-3, 3)), min_size=1, max_size=4, unique=True)
    return members.map(lambda found: Literal[tuple(found)])


def fields(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, kinds, min_size=1, max_size=3)


def dataclass_of(kinds: dict[str, Any], optional: int) -> Any:
    required = list(kinds.items())[optional:]
    later = [(name, maybe(kind), dataclasses.field(default=None)) for name, kind in list(kinds.items())[:optional]]
    return dataclasses.make_dataclass(f"Data{next(_serial)}", [*required, *later])


def typed_dict_of(kinds: dict[str, Any], optional: int) -> Any:
    left_out = list(kinds)[:optional]
    wrapped = {name: typing.NotRequired[kind] if name in left_out else kind for name, kind in kinds.items()}
    return typing.TypedDict(f"Keys{next(_serial)}", wrapped)


def named_tuple_of(kinds: dict[str, Any]) -> Any:
    return typing.NamedTuple(f"Row{next(_serial)}", list(kinds.items()))


def array_struct_of(kinds: dict[str, Any], optional: int) -> Any:
    found = list(kinds.items())
    later = [(name, maybe(kind), None) for name, kind in found[:optional]]
    return msgspec.defstruct(f"Array{next(_serial)}", [*found[optional:], *later], array_like=True)


def tagged_union_of(kinds: list[dict[str, Any]]) -> Any:
    members = [msgspec.defstruct(f"Tagged{next(_serial)}", list(each.items()), tag=True) for each in kinds]
    return either(*members)


def either(*kinds: Any) -> Any:
    return typing.Union[kinds]  # noqa: UP007 - made from a tuple


def maybe(kind: Any) -> Any:
    return either(kind, None)


def objects(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.integers(0, 2)
    return st.one_of(
        st.builds(dataclass_of, fields(kinds), some),
        st.builds(typed_dict_of, fields(kinds), some),
        kinds.map(lambda kind: dict[str, kind]),
        st.lists(fields(kinds), min_size=2, max_size=3).map(tagged_union_of),
    )


def arrays(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        kinds.map(lambda kind: list[kind]),
        st.lists(kinds, max_size=3).map(lambda found: tuple[tuple(found)] if found else tuple[()]),
        fields(kinds).map(named_tuple_of),
        st.builds(array_struct_of, fields(kinds), st.integers(0, 2)),
    )


def unions(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """msgspec refuses unions whose members it could not tell apart."""
    mappings = kinds.map(lambda kind: dict[str, kind])
    families = [st.just(None), st.just(bool), st.sampled_from([int, float]), st.just(str), arrays(kinds), mappings]
    chosen = st.lists(st.sampled_from(range(len(families))), min_size=2, max_size=4, unique=True)
    return chosen.flatmap(lambda places: st.tuples(*(families[place] for place in places))).map(lambda found: either(*found))


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda kinds: st.one_of(objects(kinds), arrays(kinds), unions(kinds)), max_leaves=6)


scalars = st.sampled_from([int, float, str, bool, None, Any, UploadedFile, UploadedFile | None])
plain = nested(st.one_of(scalars, enums(), literals()))
limits = st.sampled_from(
    [
        Annotated[int, msgspec.Meta(ge=0, lt=5)], Annotated[float, msgspec.Meta(gt=0, le=2)],
        Annotated[int, msgspec.Meta(multiple_of=2)], Annotated[str, msgspec.Meta(pattern="^a")],
        Annotated[str, msgspec.Meta(max_length=3)], Annotated[list[int], msgspec.Meta(min_length=1, max_length=2)],
        set[int], dict[int, str], bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID,
        Annotated[dict[str, int], msgspec.Meta(max_length=1)], Annotated[str | None, msgspec.Meta(description="*/ @x")],
    ]
)  # fmt: skip
limited = nested(st.one_of(scalars, enums(), limits))


@st.composite
def arguments(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> Arguments:
    """The arguments of a command, some of them with a default."""
    found = draw(st.dictionaries(names, kinds, max_size=3))
    parameters = []
    for name, kind in found.items():
        if draw(st.booleans()) and UploadedFile not in typing.get_args(kind):
            parameters.append(Parameter(name, maybe(kind), FieldInfo(None), required=False))
        else:
            parameters.append(Parameter(name, kind, FieldInfo(MISSING)))
    try:
        return Arguments("made", f"command{next(_serial)}", parameters)
    except DeclarationError:  # msgspec cannot tell the members of a union apart
        reject()


def document(commands: dict[str, Arguments]) -> dict[str, Any]:
    """The schema of a model with these commands, as a client reads it. Each replies with what it is given."""
    made = [
        {"name": name, "description": "", "schema": each.schema(), "reply": inline_schema(each._struct, sent=True)}
        for name, each in commands.items()
    ]
    found = {"name": "made", "schema_hash": "0" * 16, "tracks": [], "commands": made, "messages": []}
    return json.loads(msgspec.json.encode(found))


# ---- values -----------------------------------------------------------------------------------------------------------

EXAMPLES: dict[str, Any] = {
    "upload": {"upload_id": "u"}, "date-time": "2020-01-01T00:00:00Z", "date": "2020-01-01", "time": "00:00:00Z",
    "duration": "P1D", "uuid": "12345678-1234-5678-1234-567812345678", "^a": "abc",
}  # fmt: skip
ODD = (None, True, 0, 1, -1, 1.5, 2.0, "", "day", "zz", [], [0], {}, {"upload_id": "u"}, {"zz": 1})


def values(given: Arguments, seed: int, count: int) -> list[Any]:
    """JSON values for the arguments: some that fit, and the same with one change."""
    chance = random.Random(seed)
    schema = _with_examples(json.loads(msgspec.json.encode(given.schema())))
    repertoire = Repertoire({"commands": [{"name": "made", "schema": schema}]})
    found: list[Any] = []
    for _ in range(count):
        try:
            value = (repertoire.choose(chance) or ("made", {}))[1]
        except NoValue:
            value = {}
        found += [value, _changed(value, chance)]
    return found


def _with_examples(schema: Any) -> Any:
    """The schema with an example for values that cannot be made up."""
    if isinstance(schema, list):
        return [_with_examples(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_examples(value) for key, value in schema.items()}
    kind = "upload" if schema.get("x-reactor") == "upload" else str(schema.get("format") or schema.get("pattern"))
    if kind in EXAMPLES:
        found["examples"] = [EXAMPLES[kind]]
    return found


def _changed(value: Any, chance: random.Random) -> Any:
    """A copy with one part replaced, left out or added."""
    copy = json.loads(json.dumps(value))
    places = [(None, None), *_places(copy)]
    holder, key = chance.choice(places)
    match chance.choice(["replace", "remove", "add"]), holder:
        case _, None:
            copy["zz" if chance.random() < 0.5 or not copy else chance.choice(list(copy))] = chance.choice(ODD)
        case "remove", _:
            del holder[key]
        case "add", list():
            holder.append(chance.choice(ODD))
        case "add", dict():
            holder["zz"] = chance.choice(ODD)
        case _:
            holder[key] = chance.choice(ODD)
    return copy


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


def taken(given: Arguments, value: Any) -> bool:
    """Whether a server takes the value; it has every file that a command can name."""
    try:
        given.decode(json.dumps(value).encode(), lambda _: UploadedFile("a", "image/png", b"a"))
    except CommandError:
        return False
    return True


# ---- what a type allows -----------------------------------------------------------------------------------------------


def allows(model: ModelTypes, kind: SchemaType, value: Any, *, fraction: bool = True, extra: bool = True) -> bool:
    """Whether a type allows a JSON value.

    Args:
        fraction: whether an integer may have a fraction, as in TypeScript.
        extra: whether an object may have more keys than its type names; in TypeScript a literal may not.
    """

    def inner(kind: SchemaType, value: Any) -> bool:
        match kind:
            case Unknown():
                return True
            case Scalar("null"):
                return value is None
            case Scalar("boolean"):
                return isinstance(value, bool)
            case Scalar("string"):
                return isinstance(value, str)
            case Scalar(scalar):
                number = isinstance(value, int | float) and not isinstance(value, bool)
                return number and (fraction or scalar == "number" or value == int(value))
            case Constant(_, constant):
                return value == constant and isinstance(value, bool) == isinstance(constant, bool)
            case Upload():
                known = isinstance(value, dict) and isinstance(value.get("upload_id"), str)
                return known and (extra or set(value) == {"upload_id"})
            case ListOf(item):
                return isinstance(value, list) and all(inner(item, each) for each in value)
            case TupleOf(first, required, rest):
                if not isinstance(value, list) or len(value) < required or (rest is None and len(value) > len(first)):
                    return False
                kinds = [*first, *[rest] * len(value)]
                return all(inner(each, item) for each, item in zip(kinds, value, strict=False))
            case ObjectOf(properties, rest, closed):
                return isinstance(value, dict) and fits(properties, rest, closed, value)
            case Union(members):
                return any(inner(member, value) for member in members)
            case Ref(place):
                return inner(model.definitions[place].type, value)
        return False

    def fits(properties: Any, rest: Any, closed: bool, value: dict[str, Any]) -> bool:
        known = {each.name: each for each in properties}
        if any(each.required and each.name not in value for each in properties):
            return False
        for key, item in value.items():
            if key in known:
                if not inner(known[key].type, item):
                    return False
            elif rest is not None:
                if not inner(rest, item):
                    return False
            elif closed or (properties and not extra):
                return False
        return True

    return inner(kind, value)
