"""The types that a JSON Schema can have here, without a language, and what is documented about them.

All of them are immutable and compare by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from reactor_trio.typegen.slider_ranges import SliderRange

ScalarKind = Literal["string", "number", "integer", "boolean", "null"]
TrackKind = Literal["video", "audio"]


@dataclass(frozen=True)
class Unknown:
    """Any value."""


@dataclass(frozen=True)
class Never:
    """No value."""


@dataclass(frozen=True)
class Scalar:
    """Every value of one plain kind."""

    kind: ScalarKind


@dataclass(frozen=True)
class Constant:
    """One plain value. `kind` keeps `True` and `1` apart, which Python calls equal."""

    kind: ScalarKind
    value: str | int | float | bool | None


@dataclass(frozen=True)
class Upload:
    """A file that the client has uploaded."""


@dataclass(frozen=True)
class ListOf:
    """An array of any length."""

    item: SchemaType


@dataclass(frozen=True)
class TupleOf:
    """An array whose first items have types of their own.

    Attributes:
        first: the types of the first items.
        required: how many of them every value has.
        rest: the type of the items after them; None if there are none.
    """

    first: tuple[SchemaType, ...]
    required: int
    rest: SchemaType | None = None


@dataclass(frozen=True)
class Doc:
    """What an author said about a value, and what the type does not say.

    Attributes:
        description: the author's text.
        notes: limits, default and so on: a name and a value each; the value may be empty.
    """

    description: str = ""
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Property:
    """One named value of an object."""

    name: str
    type: SchemaType
    required: bool
    doc: Doc = field(default=Doc(), compare=False)


@dataclass(frozen=True)
class ObjectOf:
    """An object.

    Attributes:
        properties: the named values.
        rest: the type of all other values, if the schema has one.
        closed: whether the receiver refuses other values.
    """

    properties: tuple[Property, ...] = ()
    rest: SchemaType | None = None
    closed: bool = False


@dataclass(frozen=True)
class Union:
    """A value of any of at least two types, none of them a Union."""

    members: tuple[SchemaType, ...]


@dataclass(frozen=True)
class Ref:
    """A value of the type that `ModelTypes.definitions` has at this place."""

    definition: int


SchemaType: TypeAlias = Unknown | Never | Scalar | Constant | Upload | ListOf | TupleOf | ObjectOf | Union | Ref


@dataclass(frozen=True)
class Definition:
    """A type with a name, which schemas refer to."""

    name: str
    type: SchemaType
    doc: Doc


@dataclass(frozen=True)
class Command:
    """A command: `arguments` is an ObjectOf or a Ref to one."""

    name: str
    doc: Doc
    arguments: SchemaType
    reply: SchemaType


@dataclass(frozen=True)
class Message:
    """A message of the model: `data` is an ObjectOf or a Ref to one."""

    name: str
    doc: Doc
    data: SchemaType


@dataclass(frozen=True)
class ModelTypes:
    """Everything that a model declares.

    Attributes:
        outputs: the tracks to the client: name -> kind.
        inputs: the tracks from the client.
        ranges: the ranges of settings, by field.
    """

    name: str
    schema_hash: str
    commands: tuple[Command, ...]
    messages: tuple[Message, ...]
    outputs: Mapping[str, TrackKind]
    inputs: Mapping[str, TrackKind]
    definitions: tuple[Definition, ...]
    ranges: Mapping[str, SliderRange]


def union_of(members: list[SchemaType]) -> SchemaType:
    """Return the type of a value that has one of these types."""
    flat: list[SchemaType] = []
    for member in members:
        flat += member.members if isinstance(member, Union) else [member]
    if Unknown() in flat:
        return Unknown()
    different = [member for member in dict.fromkeys(flat) if member != Never()]
    if len(different) < 2:
        return different[0] if different else Never()
    return Union(tuple(different))
