"""Property P of worlds.md for a generator that is stepped by hand (row 1 in part): a world that was put goes on as it was.

After any commands, at a random step: `put(unpack(pack(capture)))`, then the same commands make the same frames as the
session that was not touched. In the same session, and in a fresh one of another seed.
"""

from __future__ import annotations

import contextlib
import io
import random
from dataclasses import field
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from reactor_trio.interface import InputState, Output, ReactorPipeline, Video
from reactor_trio.interface.saving import Saves
from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.capture import capture, declared_world
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.put import prepare
from reactor_trio.worlds.ring import Ring
from reactor_trio.worlds.unpacking import read_header, read_world

KEY = b"k" * 32
ORIGIN = Origin(model="garden:Garden", name="garden", version=1, schema_hash="")


class Picture(Output):
    main: Video


class Bee:
    """Draws from a die that others hold, too."""

    def __init__(self, dice: np.random.Generator, garden: np.ndarray) -> None:
        self.dice, self.garden = dice, garden
        self.place = [0, 0]

    def fly(self) -> None:
        self.place = [int(each) for each in self.dice.integers(0, 8, 2)]
        self.garden[tuple(self.place)] += 1


class Planted(InputState):
    speed: float = 1.0
    colour: str = "red"
    _bees: list[Bee] = field(default_factory=list)
    _past: list[Any] = field(default_factory=list)
    _counts: dict[Any, int] = field(default_factory=dict)


class Garden(ReactorPipeline):
    """Everything that a world may have: a die of many, a window, an array that two hold, a buffer with an address."""

    state: Planted
    output: Picture
    saves = Saves("cache[...]", "dice", types=(Bee,))

    def load(self, config: dict[str, Any]) -> None:
        self.dice = np.random.default_rng(config["seed"])
        self.cache = {"sums": np.zeros(8), "rows": [np.zeros(3)]}
        self.cell = self.cache["sums"]  # a graph holds its address
        garden = np.zeros((8, 8))
        self.state._bees = [Bee(self.dice, garden) for _ in range(3)]

    def inference(self):
        state = self.state
        while True:
            for bee in state._bees:
                bee.fly()
            self.cell += state._bees[0].garden[0] * state.speed
            self.cache["rows"][0][:] = random.random() + np.random.random()
            state._past = [*state._past[-3:], state._bees[0].garden[::2] * self.dice.random()]
            state._counts[len(state.colour), state.colour] = state._counts.get((len(state.colour), state.colour), 0) + 1
            yield np.concatenate([each.ravel() for each in (*state._past, self.cell, *self.cache["rows"])]).tobytes() + repr(
                sorted(state._counts.items())
            ).encode()


def opened(seed: int) -> Garden:
    model = Garden()
    model.load({"seed": seed})
    return model


COMMANDS = st.lists(
    st.one_of(
        st.none(), st.tuples(st.just("speed"), st.floats(0, 9)),
        st.tuples(st.just("colour"), st.sampled_from(["red", "blue"])),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def frames(model: Garden, commands: list[Any]) -> list[bytes]:
    """The frames of a new generator, one a command."""
    made = []
    with contextlib.closing(model.inference()) as steps:
        for command in commands:
            if command is not None:
                setattr(model.state, *command)
            made.append(next(steps))
    return made


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(COMMANDS, COMMANDS, st.booleans(), st.booleans())
def test_a_world_goes_on_as_it_was(before, after, packs, fresh):
    model = opened(seed=1)
    frames(model, before)
    world = capture(model, Copies(), step=len(before), steps=len(before), age=0.0, alone=True)
    expected = frames(model, after)
    if packs:
        file = io.BytesIO(b"".join(pack(world, ORIGIN, KEY, most_bytes=1 << 20)))
        world = read_world(file, read_header(file, (KEY,), 1 << 20), declared_world(model).classes)
    if fresh:
        model = opened(seed=2)
        frames(model, [None] * 3)
    address = model.cell.__array_interface__["data"]
    for _ in range(2):  # the moment stays as it is
        prepare(model, world, alone=True).assign()
        assert frames(model, after) == expected
    assert model.cell is model.cache["sums"]
    assert model.cell.__array_interface__["data"] == address


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(COMMANDS, st.data())
def test_each_moment_of_a_ring_goes_on_as_it_was(commands, data):
    """Moments share what did not change; to go back to one and on from it changes no other."""
    model, copies, ring = opened(seed=3), Copies(), Ring(1 << 20, 300.0)
    made = []
    for step, command in enumerate(commands):
        made += frames(model, [command])
        ring.add(capture(model, copies, step=step, steps=step, age=step / 10, alone=True), 0.0)
    for _ in range(4):
        at = data.draw(st.integers(0, len(commands) - 1))
        place = ring.at_step(at)
        assert place.step == at
        ring.rewind(place, capture(model, copies, step=99, steps=99, age=9.9, alone=True), 0.0)
        prepare(model, place, alone=True).assign()
        assert frames(model, commands[at + 1 :]) == made[at + 1 :]


def test_two_sessions_with_generators_of_their_own_do_not_disturb_each_other():
    one, other = opened(seed=1), opened(seed=2)
    frames(one, [None] * 3)
    world = capture(one, Copies(), step=3, steps=3, age=0.3, alone=False)
    alone = opened(seed=2)
    random.seed(4)
    np.random.seed(4)
    expected = frames(alone, [None] * 4)
    random.seed(4)
    np.random.seed(4)
    made = []
    for _ in range(4):
        made += frames(other, [None])
        prepare(one, world, alone=False).assign()
    assert made == expected
