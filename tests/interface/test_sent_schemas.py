"""The schemas of messages and replies describe what is sent: all fields of an object, unless msgspec leaves some out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired, TypedDict

import jsonschema
import msgspec
import pytest

from reactor_trio.interface import InputField, InputState, MessageField, ModelMessage
from reactor_trio.interface.command_arguments import inline_schema
from reactor_trio.interface.messages import message_data, message_schema, reply_schema


@dataclass
class Point:
    x: float
    y: float = 0.0


class Pair(NamedTuple):
    a: int
    b: int = 2


class Row(msgspec.Struct, array_like=True):
    a: int
    b: int = 1


class Sparse(msgspec.Struct, omit_defaults=True):
    a: int = 1


class Keys(TypedDict):
    a: Point
    b: NotRequired[Point]


@dataclass
class Tree:
    name: str
    children: list[Tree]
    at: Point | None = None


class Everything(ModelMessage):
    at: Point
    pair: Pair
    row: Row
    keys: Keys
    sparse: Sparse
    note: str = MessageField(default="")


EVERYTHING = Everything(Point(1), Pair(1), Row(1), {"a": Point(1)}, Sparse())


def test_a_message_has_all_its_fields():
    schema = message_schema(Everything)
    assert schema["required"] == ["at", "pair", "row", "keys", "sparse", "note"]
    assert schema["$defs"]["Point"]["required"] == ["x", "y"]
    assert schema["$defs"]["Pair"]["minItems"] == schema["$defs"]["Row"]["minItems"] == 2
    jsonschema.validate(msgspec.json.decode(msgspec.json.encode(message_data(EVERYTHING))), schema)


def test_what_msgspec_leaves_out_is_not_required():
    schema = message_schema(Everything)
    assert message_data(EVERYTHING)["sparse"] == {}
    assert schema["$defs"]["Sparse"]["required"] == []
    assert schema["$defs"]["Keys"]["required"] == ["a"]


def test_a_reply_has_all_its_fields_and_an_argument_has_not():
    assert reply_schema(list[Point])["$defs"]["Point"]["required"] == ["x", "y"]
    assert inline_schema(list[Point])["$defs"]["Point"]["required"] == ["x"]


@pytest.mark.parametrize("kind", [Tree, list[Tree], Tree | None])
def test_every_reference_of_a_type_that_contains_itself_has_a_target(kind: Any):
    schema = reply_schema(kind)
    assert schema["$defs"].keys() == {"Tree", "Point"}
    value = {"name": "a", "children": [{"name": "b", "children": [], "at": None}], "at": {"x": 1, "y": 2}}
    jsonschema.validate([value] if kind == list[Tree] else value, schema)
    with pytest.raises(jsonschema.ValidationError):
        wrong = value | {"children": [{"name": "b"}]}
        jsonschema.validate([wrong] if kind == list[Tree] else wrong, schema)


def test_an_optional_choice_may_be_null():
    class Settings(InputState):
        rate: float | None = InputField(default=None, choices=[0.5, 1.0])

    (rate,) = Settings.__reactor_arguments__["rate"].schema()["properties"].values()
    assert rate["enum"] == [0.5, 1.0, None]


def test_choices_are_json():
    class Settings(InputState):
        size: tuple[int, int] = InputField(default=(1, 2), choices=[(1, 2), (3, 4)])

    (size,) = Settings.__reactor_arguments__["size"].schema()["properties"].values()
    assert size["enum"] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match=r"x: choices \(<object .*>,\) cannot be JSON"):

        class Wrong(InputState):
            x: float = InputField(default=1.0, choices=[object()])
