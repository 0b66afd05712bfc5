"""The plan of a load test, and commands made up from a schema."""

from __future__ import annotations

import enum
import json
import random
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
import numpy as np
import pytest
from tests.support.models import Picture

from reactor_trio.interface import InputField, InputState, ReactorPipeline, UploadedFile, event
from reactor_trio.loadtest import Repertoire, Shape, visits
from reactor_trio.loadtest.plan import choices, moments
from reactor_trio.loadtest.samples import Distribution, Samples
from reactor_trio.testing import open_server


def test_a_seed_is_a_plan():
    shape = Shape(sessions=50, rate=2.0, commands=3.0, vanish=0.3)
    assert list(visits(shape)) == list(visits(shape))
    assert list(visits(shape)) != list(visits(msgspec.structs.replace(shape, seed=2)))
    visit = next(visits(shape))
    assert list(moments(shape, visit)) == list(moments(shape, visit))
    assert choices(shape, visit).random() == choices(shape, visit).random()


def test_more_clients_do_not_change_the_earlier_ones():
    few, many = (list(visits(Shape(sessions=count))) for count in (5, 50))
    assert many[:5] == few


def test_poisson_arrivals_exponential_lengths_and_the_share_that_vanishes():
    plan = list(visits(Shape(sessions=20_000, rate=4.0, length=30.0, vanish=0.25)))
    gaps = np.diff([visit.at for visit in plan])
    assert plan[0].at == 0.0
    assert gaps.min() >= 0
    # mean and standard deviation of an exponential are the same
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    assert gaps.std() == pytest.approx(0.25, rel=0.03)
    lengths = np.array([visit.length for visit in plan])
    assert (lengths.mean(), lengths.std()) == pytest.approx((30.0, 30.0), rel=0.03)
    assert sum(visit.vanishes for visit in plan) / len(plan) == pytest.approx(0.25, abs=0.01)


def test_even_arrivals_and_all_at_once():
    even = list(visits(Shape(sessions=5, arrival="uniform", rate=4.0, lengths="fixed", length=3.0)))
    assert [visit.at for visit in even] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert {visit.length for visit in even} == {3.0}
    assert {visit.at for visit in visits(Shape(sessions=5, arrival="all-at-once"))} == {0.0}


def test_commands_come_at_their_rate_within_the_visit():
    shape = Shape(lengths="fixed", length=2000.0, commands=5.0)
    found = list(moments(shape, next(visits(shape))))
    assert len(found) == pytest.approx(10_000, rel=0.03)
    assert all(0 < earlier < later < 2000.0 for earlier, later in pairwise(found))
    assert list(moments(Shape(commands=0.0), next(visits(shape)))) == []


class Mood(enum.Enum):
    CALM, WILD = "calm", "wild"


class Point(msgspec.Struct):
    x: int
    y: Annotated[float, msgspec.Meta(gt=0.0, lt=0.5)]


class Settings(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0)
    level: int = InputField(default=5, ge=-3, le=9)
    prompt: str = InputField(default="a cat", min_length=3, max_length=12)
    style: str = InputField(default="oil", choices=["oil", "ink"])
    on: bool = False
    mood: Mood = Mood.CALM
    weight: float | None = InputField(default=None, ge=0.5, le=0.75)
    beyond: int = InputField(default=1000, ge=1000)


class Model(ReactorPipeline):
    state: Settings
    output: Picture

    @event
    def walk(self, to: Point, by: Annotated[list[int], msgspec.Meta(max_length=2)] = (), how: Literal["slow", 3] = "slow"):
        pass

    @event
    def pair(self, both: tuple[int, str], names: dict[str, bool], parity: Annotated[int, msgspec.Meta(multiple_of=2, gt=0)]):
        pass

    @event
    def coded(self, code: Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]):
        pass

    @event
    def maybe_coded(self, code: Annotated[str, msgspec.Meta(pattern="^[0-9]+$")] = "7"):
        pass

    @event
    def look(self, file: UploadedFile):
        pass

    @event
    def reset(self):
        pass

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def test_a_server_accepts_every_command_made_up_from_its_schema(autojump_clock):
    async with open_server(Model, limits={"commands_per_second": 100_000}) as server, server.connect(video=[]) as client:
        repertoire = Repertoire(client.schema)
        assert repertoire.left_out == {"coded": "$.code names no value", "look": "$.file is a file"}
        dice, sent = random.Random(1), set[str]()
        for _ in range(600):
            name, arguments = repertoire.choose(dice)
            await client.command(name, **arguments)  # raises CommandError for what the schema does not allow
            sent.add(name)
    assert sent == {command["name"] for command in client.schema["commands"]} - {"coded", "look"}
    assert len(sent) == 12


def test_the_same_seed_chooses_the_same_commands():
    schema = {"commands": [{"name": name, "schema": {"type": "object", "properties": {"x": {"type": "number"}},
                                                     "required": ["x"]}} for name in "abc"]}  # fmt: skip
    repertoire = Repertoire(schema, only=["a", "c", "z"])
    first, second = ([repertoire.choose(dice) for _ in range(20)] for dice in (random.Random(7), random.Random(7)))
    assert first == second
    assert {name for name, _ in first} == {"a", "c"}
    assert repertoire.left_out == {"z": "the server has no such command"}
    assert json.dumps(first)
    assert Repertoire({"commands": []}).choose(random.Random(1)) is None


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "$.x allows no whole number"),
        ({"type": "number", "multipleOf": 0.5}, "$.x names no value"),
        ({"$ref": "#/$defs/Gone"}, "$.x is of a type without an end"),
        ({}, "$.x names no value"),
    ],
)
def test_commands_that_cannot_be_made_up_are_left_out(schema, why):
    command = {"name": "a", "schema": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}
    assert Repertoire({"commands": [command]}).left_out == {"a": why}
    command["schema"]["required"] = []
    assert Repertoire({"commands": [command]}).choose(random.Random(1)) == ("a", {})


def test_samples_are_exact_up_to_their_limit_and_bounded_above_it():
    samples = Samples(most=100)
    assert samples.distribution() == Distribution()
    for value in range(1, 101):
        samples.add(float(value))
    assert samples.distribution() == Distribution(100, 50.5, 95.05, pytest.approx(99.01), 100.0)
    for value in range(101, 10_001):
        samples.add(float(value))
    found = samples.distribution()
    assert (found.n, found.max) == (10_000, 10_000.0)
    assert (found.p50, found.p99) == pytest.approx((5000, 9900), rel=0.03)
    assert len(samples._kept) <= 100
