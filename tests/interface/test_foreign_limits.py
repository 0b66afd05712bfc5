"""Limits of an argument in the notation of `typing.Annotated`, annotated-types or pydantic."""

from __future__ import annotations

from typing import Annotated

import annotated_types
import msgspec
import pydantic
import pytest

from reactor_trio import CommandError, InputField, Output, ReactorPipeline, Video, VideoModel, command, event
from reactor_trio.interface.declaration import declaration_of


class Picture(Output):
    main: Video


def arguments(cls, name):
    return declaration_of(cls).commands[name].arguments


class Legacy(VideoModel):
    @command("pydantic_default")
    def pydantic_default(self, speed: float = pydantic.Field(0.5, ge=0, lt=2, description="how fast")):
        pass

    @command("pydantic_required")
    def pydantic_required(self, text: str = pydantic.Field(..., min_length=2, max_length=4)):
        pass

    @command("pydantic_annotated")
    def pydantic_annotated(self, count: Annotated[int, pydantic.Field(gt=0, le=3)] = 1):
        pass

    @command("annotated_types")
    def annotated_types(self, level: Annotated[int, annotated_types.Ge(0), annotated_types.Lt(10)]):
        pass

    @command("input_field")
    def input_field(self, x: Annotated[float, InputField(ge=-1, le=1, description="left to right")] = 0.25):
        pass

    @command("meta")
    def meta(self, code: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")] = "a"):
        pass


@pytest.mark.parametrize(
    ("name", "fine", "wrong", "message"),
    [
        ("pydantic_default", {"speed": 0}, {"speed": 2}, r"Expected float < 2"),
        ("pydantic_required", {"text": "abc"}, {"text": "a"}, r"length >= 2 - at \$\.text"),
        ("pydantic_required", {"text": "abc"}, {}, "text"),
        ("pydantic_annotated", {"count": 3}, {"count": 0}, r"Expected int > 0|Expected int >= 1"),
        ("annotated_types", {"level": 9}, {"level": 10}, r"Expected int < 10|Expected int <= 9"),
        ("annotated_types", {"level": 0}, {}, "level"),
        ("input_field", {"x": 1}, {"x": 1.5}, r"Expected float <= 1.* - at \$\.x"),
        ("meta", {"code": "xyz"}, {"code": "X"}, "matching regex"),
    ],
)
def test_each_kind_of_limit_is_enforced(name, fine, wrong, message):
    assert arguments(Legacy, name).decode(msgspec.json.encode(fine)) == fine
    with pytest.raises(CommandError, match=message):
        arguments(Legacy, name).decode(msgspec.json.encode(wrong))


def test_defaults_and_descriptions_are_kept():
    assert arguments(Legacy, "pydantic_default").decode(b"{}") == {"speed": 0.5}
    assert arguments(Legacy, "pydantic_annotated").decode(b"{}") == {"count": 1}
    assert arguments(Legacy, "input_field").decode(b"{}") == {"x": 0.25}
    assert arguments(Legacy, "meta").decode(b"{}") == {"code": "a"}
    speed = arguments(Legacy, "pydantic_default").schema()["properties"]["speed"]
    assert (speed["description"], speed["minimum"], speed["exclusiveMaximum"]) == ("how fast", 0, 2)
    assert arguments(Legacy, "input_field").schema()["properties"]["x"]["description"] == "left to right"


def test_an_event_of_a_pipeline_takes_the_same_limits():
    class Model(ReactorPipeline):
        output: Picture

        @event
        def move(self, x: Annotated[float, InputField(ge=0)] = 1.0):
            pass

        def inference(self):
            yield None

    assert arguments(Model, "move").decode(b"{}") == {"x": 1.0}
    with pytest.raises(CommandError, match=r"\$\.x"):
        arguments(Model, "move").decode(b'{"x": -1}')
