"""Which values a world may have, what they are after a put, and how the others are refused (rows 4 to 7 of worlds.md)."""

from __future__ import annotations

import enum
import math
import random
import subprocess
import sys
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis
import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from reactor_trio.errors import CommandError
from reactor_trio.interface import UploadedFile
from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.put import prepare
from reactor_trio.worlds.settings import check_settings
from tests.worlds.kit import Kept, back, captured, model_of, put


class Heading(enum.Enum):
    NORTH = 0
    EAST = (1, 0)


class Kind(enum.IntFlag):
    WALL = 1
    DOOR = 2


class Tile(NamedTuple):
    x: int
    inside: Any = None


@dataclass
class Walker:
    place: list[float]
    other: Any = None

    def __post_init__(self):
        self.made = True


@dataclass(frozen=True, slots=True)
class Spot:
    x: float
    y: Any = None


class Slotted:
    __slots__ = ("__hidden", "empty", "left")

    def __init__(self):
        self.__hidden, self.left = 1, 2

    def hidden(self):
        return self.__hidden


class Record(msgspec.Struct, frozen=True):
    name: str
    items: list[Any] = msgspec.field(default_factory=list)


class Angry:
    def __init__(self):
        raise AssertionError("no code of the author runs")

    def __setattr__(self, name, value):
        raise AssertionError("no code of the author runs")


class Bag(list):
    pass


CLASSES = (Heading, Kind, Tile, Walker, Spot, Slotted, Record, Angry)
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=5), st.binary(max_size=5),
    st.sampled_from([*Heading, *Kind, Kind.WALL | Kind.DOOR, 2**70, -(2**200), "\ud800", math.inf, -0.0]),
    st.sampled_from([np.float32(0.1), np.int8(-3), np.bool_(True), np.datetime64("2020-01-01"), np.complex64(1j)]),
)  # fmt: skip
ARRAYS = st.builds(
    lambda shape, dtype, order: np.asarray(np.arange(math.prod(shape)).reshape(shape), dtype, order=order),
    st.lists(st.integers(0, 3), max_size=3), st.sampled_from(["u1", "<f4", ">i8", "bool", "c16", "S3", "U2", "f2"]),
    st.sampled_from(["C", "F"]),
)  # fmt: skip
KEYS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.sampled_from(Heading)),
    lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=3)), max_leaves=3,
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(ATOMS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 2, 9])),
        st.tuples(inner, inner), st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, max_size=3), st.builds(Walker, st.lists(st.floats()), inner), st.builds(Tile, st.integers(), inner),
        st.builds(Spot, st.floats(), inner),
        st.builds(Record, st.text(max_size=3), st.lists(inner, max_size=2)),
    ),
    max_leaves=20,
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Whether two values are of one type and content, at any depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        layout = one.size == 0 or one.strides == other.strides
        return layout and (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, deque):
        return one.maxlen == other.maxlen and same(list(one), list(other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, Record):
        return same(msgspec.structs.astuple(one), msgspec.structs.astuple(other))
    if isinstance(one, Spot):
        return same((one.x, one.y), (other.x, other.y))
    if isinstance(one, Walker):
        return same(vars(one), vars(other))
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    return bool(one == other)


@hypothesis.settings(max_examples=150, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(VALUES)
def test_every_value_of_the_list_comes_back(value):
    assert same(value, back(value, types=CLASSES))


def test_containers_and_arrays_are_copies_and_what_never_changes_is_not():
    file, text = UploadedFile("a.png", "image/png", b"x" * 9), b"y" * 4000
    value = {"a": [1], "b": np.ones(3), "c": file, "d": text}
    found = back(value)
    assert found is not value
    assert found["a"] is not value["a"]
    assert not np.shares_memory(found["b"], value["b"])
    assert found["c"] is file
    assert found["d"] is text


def test_an_object_that_two_places_share_is_shared_again():
    shared, die = [1], random.Random(4)
    value = {"a": shared, "b": (shared, {"c": shared}), "dice": [die, die], "walker": Walker([0.0], die)}
    found = back(value, types=CLASSES)
    assert found["a"] is found["b"][0] is found["b"][1]["c"]
    assert found["dice"][0] is found["dice"][1] is found["walker"].other
    assert found["dice"][0].random() == random.Random(4).random()


def test_a_list_a_dict_and_an_instance_may_hold_themselves():
    row: list[Any] = [1]
    row.append(row)
    table: dict[str, Any] = {}
    table["self"] = (table,)
    walker = Walker([])
    walker.other = {"back": walker}
    record = Record("a", [])
    record.items.append(record)
    found = back([row, table, walker, record], types=CLASSES)
    assert found[0][1] is found[0]
    assert found[1]["self"][0] is found[1]
    assert found[2].other["back"] is found[2]
    assert found[3].items[0] is found[3]


@pytest.mark.parametrize("closed", [lambda row: (row,), lambda row: Tile(1, row)])
def test_a_tuple_that_holds_itself_is_refused(closed):
    row: list[Any] = []
    row.append(closed(row))
    with pytest.raises(CommandError, match="holds itself is no value that can be saved"):
        back(row[0], types=CLASSES)
    assert back(row, types=CLASSES)[0][-1][0]  # from outside there is an order in which they can be made


def test_a_deque_may_hold_itself_and_its_generator_is_set_in_place():
    model = model_of()
    model.state._value = window = deque([random.Random(1)], maxlen=3)
    window.append(window)
    world, die = captured(model), window[0]
    expected = die.random()
    put(model, world)
    found = model.state._value
    assert found is not window
    assert (found.maxlen, len(found), found[1] is found, found[0] is die) == (3, 2, True, True)
    assert die.random() == expected


def test_views_of_one_array_share_their_memory_again():
    whole = np.arange(24.0).reshape(4, 6)
    found = back([whole, whole[1], whole[:, ::-2], whole.T, whole.view(np.uint8)])
    assert all(same(one, other) for one, other in zip(found, [whole, whole[1], whole[:, ::-2], whole.T], strict=False))
    found[0][1, 5] = 99
    assert found[1][5] == found[2][1, 0] == found[3][5, 1] == 99
    assert found[4].view(np.float64)[1, 5] == 99


def test_two_views_without_their_base_share_only_what_is_theirs():
    """What lies between them is no part of the world: it may be another session's row of a batch."""
    batch = np.full((4, 3), 7, np.uint8)
    batch[:, 1] = 1
    mine = batch[:, 1]
    first = model_of()
    first.state._value = [mine, mine[1:3]]
    world = captured(first)
    (buffer,) = world.blobs.values()
    assert sorted(set(buffer.data.tolist())) == [0, 1]
    put(first, world)
    first.state._value[0][2] = 5
    assert first.state._value[1].tolist() == [1, 5]
    first.state._value = mine  # alone it has no gaps
    (buffer,) = captured(first).blobs.values()
    assert buffer.data.tolist() == [1, 1, 1, 1]


def test_a_read_only_array_stays_read_only():
    picture = np.ones(3)
    picture.flags.writeable = False
    assert not back(picture).flags.writeable
    assert back(np.broadcast_to(np.arange(3), (2, 3))).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_structured_array_comes_back():
    points = np.array([(1, 2.0), (3, 4.0)], dtype=[("x", "i4"), ("y", "f8")])
    assert same(points, back(points))


def test_instances_are_made_without_the_authors_code():
    angry = object.__new__(Angry)
    vars(angry)["x"] = 1
    slotted = Slotted()
    found = back([angry, slotted], types=CLASSES)
    assert vars(found[0]) == {"x": 1}
    assert (found[1].hidden(), found[1].left, hasattr(found[1], "empty")) == (1, 2, False)


def draws(value: Any) -> float:
    return float(value.random())


GENERATORS = {
    "Random": random.Random, "RandomState": np.random.RandomState,
    **{
        name: lambda seed, name=name: np.random.Generator(getattr(np.random, name)(seed))
        for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    },
}  # fmt: skip


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_goes_on_where_it_was(make):
    model = model_of()
    die = model.state._value = make(5)
    if hasattr(die, "gauss"):
        die.gauss(0, 1)
    if hasattr(die, "integers"):
        die.integers(5, dtype=np.int32)  # half of a word is kept
    world = captured(model)
    expected = [draws(die) for _ in range(3)]
    put(model, world)
    assert model.state._value is die  # in place: others may hold it
    assert [draws(die) for _ in range(3)] == expected
    fresh = type(model)()
    put(fresh, world)
    assert fresh.state._value is not die
    assert [draws(fresh.state._value) for _ in range(3)] == expected


def test_a_generator_is_set_in_place_where_the_live_session_has_one_and_elsewhere_resolves_to_it():
    model = model_of("thing.part", types=CLASSES)
    die = np.random.default_rng(1)
    model.state._value, model.state._more, model.thing.part = Walker([], die), {"dice": die}, [die]
    held = (die,)  # no path names it, as the network that `load` made may hold it
    world = captured(model)
    expected = draws(die)
    model.state._value = model.state._more = None  # only one path still has it
    put(model, world)
    assert model.thing.part[0] is model.state._value.other is model.state._more["dice"] is held[0]
    assert draws(die) == expected


def test_two_generators_of_the_world_do_not_take_one_live_generator():
    model = model_of()
    model.state._value = [random.Random(1), random.Random(2)]
    world = captured(model)
    model.state._value = [random.Random(3)] * 2
    put(model, world)
    assert [draws(die) for die in model.state._value] == [random.Random(1).random(), random.Random(2).random()]


def test_the_process_generators_belong_to_a_session_that_is_alone():
    model = model_of()
    world = captured(model, alone=True)
    expected = random.random(), np.random.random()
    put(model, world, alone=False)
    assert random.random() != expected[0]
    put(model, world, alone=True)
    assert (random.random(), np.random.random()) == expected
    assert captured(model).generators == {}


def test_a_put_does_not_change_what_load_made():
    model = model_of()
    base = model.thing.part = np.zeros(3)
    model.state._value = base
    world = captured(model)
    base += 1
    put(model, world)
    assert base.tolist() == [1, 1, 1]
    assert model.state._value.tolist() == [0, 0, 0]
    model.state._value += 5
    put(model, world)
    assert model.state._value.tolist() == [0, 0, 0]  # a moment is never handed out


def test_written_in_place_the_arrays_stay_the_same_objects():
    model = model_of("thing.part[...]")
    first, second = np.arange(4.0)[::2], np.zeros((2, 2))
    live = model.thing.part = {"a": [(first, 3), 0], "b": second}
    model.state._value = second
    world = captured(model)
    first += 1
    second += 1
    live["a"][1] = 7
    put(model, world)
    assert model.thing.part is live
    assert live["a"][0][0] is first
    assert live["b"] is second
    assert model.state._value is second  # it is the same object for all who share it
    assert (first.tolist(), live["a"][1], second.sum()) == ([0, 2], 0, 0)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (np.zeros(4), "[0]: the saved value has ((3,), dtype('float64')) and the live one ((4,), dtype('float64')): it"),
        (np.zeros(3, "f4"), "[0]: the saved value has ((3,), dtype('float64')) and the live one ((3,), dtype('float32'))"),
        (np.broadcast_to(0.0, 3), "[0]: the live array is read-only"),
        (5, "[0]: only arrays, and lists, tuples and dicts of them, are written in place"),
    ],
)
def test_what_cannot_be_written_in_place_changes_nothing(then, said):
    model = model_of("thing.part[...]")
    model.thing.part, model.state._value = [np.zeros(3)], 1
    world = captured(model)
    model.thing.part, model.state._value = [then], 2
    with pytest.raises(CommandError) as raised:
        prepare(model, world, alone=False)
    assert raised.value.code == "restore_failed"
    assert str(raised.value).startswith(f"thing.part[...]{said}")
    assert model.state._value == 2


def test_a_put_that_fails_half_way_is_taken_back():
    class Stubborn:
        part = 1

        def __setattr__(self, name, value):
            raise RuntimeError("never")

    model = model_of("thing.part")
    model.state._value, model.state.speed, model.thing.part = [1], 0.5, 3
    world = captured(model)
    kept = model.state._value = [2]
    model.state.speed, model.thing = 1.5, Stubborn()
    with pytest.raises(CommandError, match=r"Stubborn\.part cannot be set: RuntimeError: never") as raised:
        put(model, world)
    assert raised.value.code == "restore_failed"
    assert model.state._value is kept
    assert model.state.speed == 1.5


def test_an_attribute_that_came_later_goes_and_a_part_replaces_the_field():
    model = model_of("state._value.part")
    model.state._value = held = type(model.thing)(1)
    held.network = object()  # it could not be saved
    world = captured(model)
    assert sorted(world.values) == ["state._more", "state._value.part", "state.speed"]
    model.state._later, held.part = 5, 2
    put(model, world)
    assert not hasattr(model.state, "_later")
    assert model.state._value is held
    assert held.part == 1


def test_what_saving_returned_is_for_restored():
    model = model_of()
    shared = model.state._value = [1]
    world = captured(model, saved={"latents": shared})
    ready = prepare(model, world, alone=False)
    ready.assign()
    assert ready.saved == {"latents": [1]}
    assert ready.saved["latents"] is model.state._value
    assert prepare(model, captured(model), alone=False).saved == {}


class Unknown:
    pass


KEY = "an instance of Spot is a key or in a set; text, numbers, enum members and tuples of them may be there"
REMEDY = (
    "is no value that can be saved: name its parts in Saves(...), list its class in types=, or write @saving and @restored"
)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Unknown(), f"state._value: Unknown {REMEDY}"),
        ({"a": [0, Walker([Unknown()])]}, f"state._value['a'][1].place[0]: Unknown {REMEDY}"),
        ({Unknown(): 1}, f"state._value (a key): Unknown {REMEDY}"),
        ({(Spot(1.0),): 1}, f"state._value: {KEY}"),
        ({frozenset({Spot(1.0)})}, f"state._value: {KEY}"),
        (OrderedDict(), f"state._value: OrderedDict {REMEDY}"),
        (Bag(), f"state._value: Bag {REMEDY}"),
        (deep, f"state._value: function {REMEDY}"),
        (random.SystemRandom(), f"state._value: SystemRandom {REMEDY}"),
        (bytearray(), f"state._value: bytearray {REMEDY}"),
        (np.array([None]), "state._value: an array of objects is no value that can be saved; use a list"),
        (np.ma.zeros(3), f"state._value: MaskedArray {REMEDY}"),
        (deep(65), "state._value" + "[0]" * 65 + ": values lie in each other 64 deep at most"),
        ([0] * 1_000_001, "state._value: a world has at most 1000000 values; keep numbers in arrays"),
    ],
)  # fmt: skip
def test_a_value_outside_the_list_is_named_with_its_path_and_the_remedy(value, said):
    model = model_of(types=(Walker, Spot))
    model.state._value = value
    with pytest.raises(CommandError) as raised:
        captured(model)
    assert raised.value.code == "cannot_save"
    assert str(raised.value) == said


def test_64_deep_is_not_too_deep():
    assert back(deep(64)) == deep(64)


def test_an_enum_that_is_not_in_types_is_named():
    model = model_of()
    model.state._value = Heading.EAST
    with pytest.raises(CommandError, match=r"state\._value: Heading is an Enum that is not in types=; list it there"):
        captured(model)


def test_a_path_that_the_model_has_not_says_which_was_meant():
    model = model_of("thing.prt")
    with pytest.raises(CommandError, match=r"thing\.prt: Thing has no attribute prt; did you mean part\?"):
        captured(model)
    with pytest.raises(CommandError, match=r"thng\.part: .*Keeper has no attribute thng; did you mean thing\?"):
        captured(model_of("thng.part"))


def test_what_saving_returns_is_a_dict():
    with pytest.raises(CommandError, match="@saving: it returned list, not a dict"):
        captured(model_of(), saved=[1])


def test_a_model_without_saves_is_told_what_to_write():
    from reactor_trio.interface import ReactorPipeline

    class Plain(ReactorPipeline):
        state: Kept

    with pytest.raises(CommandError, match="Plain cannot save its worlds: its class needs `saves = Saves\\(\\)`") as raised:
        captured(Plain())
    assert raised.value.code == "not_saveable"


def test_a_world_of_another_class_does_not_fit():
    world = captured(model_of("thing.part"))
    with pytest.raises(CommandError, match=r"it has thing\.part, which today's class has not; raise Saves\.version"):
        prepare(model_of(), world, alone=False)
    with pytest.raises(CommandError, match=r"it lacks thing\.part, which today's class has"):
        prepare(model_of("thing.part"), captured(model_of()), alone=False)
    ready = prepare(model_of(), world, alone=False, older=True)
    assert ready.settings == {"speed": 1.0}


def test_settings_of_another_process_are_checked_against_todays_declaration():
    check_settings(Kept, {"speed": 2.0, "gone": 1})
    with pytest.raises(CommandError, match=r"state.speed: Expected float, got str - at \$.speed"):
        check_settings(Kept, {"speed": "fast"})


def test_arrays_that_did_not_change_are_copied_once():
    model, copies = model_of(), Copies()
    still, moving = np.zeros(1000), np.zeros(10)
    window = model.state._value = [still, moving, np.ones(5)]
    worlds = []
    for _ in range(3):
        worlds.append(captured(model, copies))
        moving += 1
        window.append(window.pop(0))  # places change, objects stay
    assert len({name for world in worlds for name in world.blobs}) == 1 + 3 + 1
    still[-1] = 1
    worlds.append(captured(model, copies))
    assert len({name for world in worlds for name in world.blobs}) == 7
    put(model, worlds[0])
    assert [array.sum() for array in model.state._value] == [0, 0, 5]


def test_torch_is_not_imported():
    program = (
        "import sys; from tests.worlds.kit import *; model = model_of(); world = captured(model, alone=True); "
        "put(model, world, alone=True); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
