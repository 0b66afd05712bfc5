"""The file of a world: all comes back, and nothing but what was written and signed is read (rows 21, 22 of worlds.md)."""

from __future__ import annotations

import contextlib
import io
import math
import random
import tracemalloc
from collections import deque
from typing import Any

import hypothesis
import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from reactor_trio.errors import CommandError
from reactor_trio.interface import UploadedFile
from reactor_trio.worlds.capture import declared_world
from reactor_trio.worlds.file_header import CHUNK, MAGIC, Header, Origin, check_origin, mac_of
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.put import prepare
from reactor_trio.worlds.unpacking import read_header, read_world
from reactor_trio.worlds.unsigned import pack_unsigned, unpack_unsigned
from tests.worlds.kit import captured, model_of, put
from tests.worlds.test_values import CLASSES, VALUES, Heading, Kind, Record, Slotted, Spot, Tile, Walker, same

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
ORIGIN = Origin(
    model="dream:Dream", name="dream", version=1, schema_hash="s", config="c", weights="w", versions={"numpy": "2"}
)


def packed(world, key: bytes = KEY, **options: Any) -> bytes:
    return b"".join(pack(world, ORIGIN, key, most_bytes=1 << 30, **options))


def read(data: bytes, classes: dict[str, type] | None = None, keys=(KEY,), most: int = 1 << 30):
    file = io.BytesIO(data)
    header = read_header(file, keys, most)
    return read_world(file, header, {each.__qualname__: each for each in CLASSES} if classes is None else classes)


def through_a_file(value: Any) -> Any:
    model = model_of(types=CLASSES)
    model.state._value = value
    fresh = type(model)()
    put(fresh, read(packed(captured(model))))
    return fresh.state._value


@hypothesis.settings(max_examples=100, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(VALUES)
def test_every_value_comes_back_through_a_file(value):
    assert same(value, through_a_file(value))


def test_a_world_in_the_memory_of_another_process_does_not_keep_the_parts_of_other_ranks():
    model = model_of(types=CLASSES)
    model.state._value = np.arange(1000)
    parts = tuple(np.full(size, size % 256, np.uint8) for size in (5_000_000, 3))
    sent = pack_unsigned(msgspec.structs.replace(captured(model), others=parts))
    world = unpack_unsigned(np.frombuffer(b"".join(sent), np.uint8), {})
    assert [part.tolist() for part in world.others[1:]] == [[3, 3, 3]]
    assert [len(part) for part in world.others] == [5_000_000, 3]
    (array,) = [blob.data for blob in world.blobs.values()]
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert array.nbytes == 8000


def sample() -> Any:
    """A model with something of each kind in its world."""
    model = model_of("thing.part[...]", types=CLASSES)
    die, shared = np.random.default_rng(3), np.arange(12.0).reshape(3, 4)
    row: list[Any] = [die]
    row.append(row)
    model.state._value = {
        "row": row, "array": shared, "view": shared[1:, ::-1], "empty": np.zeros((0, 3)), "die": random.Random(5),
        "walker": Walker([0.5], Tile(1, Spot(2.0))), "record": Record("x", [shared]), "slots": Slotted(),
        "file": UploadedFile("a.png", "image/png", b"p" * 100), "long": b"q" * 3000, "big": 2**100, "text": "\ud800",
        "enums": (Heading.EAST, Kind.WALL | Kind.DOOR), "scalar": np.float32(0.1), "set": {1, "a", (2, frozenset({3}))},
        "points": np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]),
    }  # fmt: skip
    model.thing.part = np.ones(3)
    return model


def test_a_whole_world_comes_back_with_its_identity():
    model = sample()
    world = captured(model, saved={"more": model.state._value["array"]}, step=7, steps=5, age=1.5, alone=True)
    world = msgspec.structs.replace(world, fps=12.0)
    found = read(packed(world))
    assert (found.step, found.steps, found.age, found.fps) == (7, 5, 1.5, 12.0)
    assert found.generators == world.generators
    fresh = type(model)()
    fresh.thing = type(model.thing)(np.zeros(3))
    ready = prepare(fresh, found, alone=True)
    ready.assign()
    was, now = model.state._value, fresh.state._value
    assert list(now) == list(was)
    assert now["row"][1] is now["row"]
    assert now["row"][0].random() == was["row"][0].random()
    assert now["die"].random() == was["die"].random()
    assert ready.saved["more"] is now["array"] is now["record"].items[0]
    now["array"][2, 0] = 77
    assert now["view"][1, -1] == 77
    assert all(same(was[name], now[name]) for name in ("empty", "big", "text", "enums", "scalar", "set", "points", "long"))
    assert now["file"] == was["file"]
    assert fresh.thing.part.tolist() == [1, 1, 1]
    assert {len(blob) if isinstance(blob, bytes) else blob.data.nbytes for blob in found.blobs.values()} >= {3000, 100, 96}


def test_the_blobs_are_aligned_and_hashed_in_pieces_by_whoever_maps():
    model = model_of()
    model.state._value = [np.arange(CHUNK + 5, dtype=np.uint8), b"x" * 2000]
    hashed = []

    def mapped(digest, chunks):
        for chunk in chunks:
            hashed.append(len(chunk))
            yield digest(chunk)

    parts = pack(captured(model), ORIGIN, KEY, most_bytes=1 << 30, mapped=mapped)
    assert sorted(hashed) == [5, 2000, CHUNK]
    places, at = [], 0
    for part in parts:
        if len(part) in (CHUNK + 5, 2000):
            places.append(at)
        at += len(part)
    assert [place % 64 for place in places] == [0, 0]
    file = io.BytesIO(b"".join(parts))
    again = read_world(file, read_header(file, (KEY,), 1 << 30), {}, mapped=mapped)
    assert len(hashed) == 6
    assert again.size >= CHUNK + 2005


def test_the_first_key_signs_and_each_may_verify():
    data = packed(captured(model_of()), OTHER_KEY)
    assert read(data, keys=(KEY, OTHER_KEY)).step == 3
    with pytest.raises(CommandError, match="no key of this server has signed the world") as raised:
        read(data)
    assert raised.value.code == "foreign_world"


def test_what_is_too_big_is_neither_packed_nor_read():
    model = model_of()
    model.state._value = np.zeros(10_000)
    data = packed(captured(model))
    with pytest.raises(CommandError, match=r"the world has \d+ bytes, and 80000 may be saved") as raised:
        pack(captured(model), ORIGIN, KEY, most_bytes=80_000)
    assert raised.value.code == "too_big"
    with pytest.raises(CommandError, match=f"has {len(data)} bytes, and 80000 are allowed") as raised:
        read(data, most=80_000)
    assert raised.value.code == "too_big"


def test_a_newer_format_and_another_file_say_so():
    data = packed(captured(model_of()))
    with pytest.raises(CommandError, match="has a newer format; update reactor-trio") as raised:
        read(data.replace(b"RWORLD1", b"RWORLD2", 1))
    assert raised.value.code == "foreign_world"
    for other in (b"", b"PNG", b"\x89PNG" * 30):
        with pytest.raises(CommandError, match="is damaged: it does not begin as one") as raised:
            read(other)
        assert raised.value.code == "damaged_world"


def test_each_byte_that_is_flipped_is_noticed():
    data = packed(captured(sample()))
    assert len(data) < 10_000
    for place in range(len(data)):
        wrong = bytearray(data)
        wrong[place] ^= 1 << place % 8
        with pytest.raises(CommandError) as raised:
            read(bytes(wrong))
        assert raised.value.code in ("damaged_world", "foreign_world")


def test_each_truncation_and_what_is_longer_is_noticed():
    data = packed(captured(sample()))
    for wrong in (*(data[:length] for length in range(0, len(data), 7)), data[:-1], data + b"\0", data + data):
        with pytest.raises(CommandError) as raised:
            read(wrong)
        assert raised.value.code in ("damaged_world", "foreign_world")


def signed(header: Any, blobs: bytes = b"") -> bytes:
    """A file that says what it likes, by somebody who has the key."""
    body = msgspec.msgpack.encode(header)
    head = MAGIC + len(body).to_bytes(8, "little") + body
    return head + bytes(-len(head) % 64 if blobs else 0) + blobs + mac_of(KEY, head)


def header_with(**changes: Any) -> dict[str, Any]:
    given = {
        "origin": ORIGIN, "step": 1, "steps": 1, "age": 0.1, "fps": None, "nodes": [], "values": {}, "saved": None,
        "generators": {}, "blobs": [],
    }  # fmt: skip
    return given | changes


def test_a_deque_comes_back_with_its_bound():
    found = through_a_file([deque([1, [2]], maxlen=2), deque("ab")])
    assert found == [deque([1, [2]]), deque("ab")]
    assert [each.maxlen for each in found] == [2, None]


def test_an_empty_world_can_be_read():
    assert read(signed(header_with())).values == {}


@pytest.mark.parametrize("missing", [Heading, Record, Slotted, Spot, Walker])
def test_no_class_is_made_that_the_model_does_not_list_here(missing):
    """Whatever the file says: it was signed by a model of the same name that lists more."""
    data = packed(captured(sample()))
    with pytest.raises(CommandError, match=missing.__qualname__) as raised:
        read(data, {each.__qualname__: each for each in CLASSES if each is not missing})
    assert raised.value.code == "foreign_world"


CHAIN = [["list", [number + 1]] for number in range(100)]
LIES = [[0, 0, "cpu", False], 0]


@pytest.mark.parametrize(
    "nodes",
    [
        [["object", "Unlisted", [], []]], [["object", "Heading", [], []]], [["enum", "Tile", "x"]],
        [["enum", "Heading", "WEST"]], [["flag", "Heading", 1]], [["object", "Walker", ["place"], []]], [["tuple", [0]]],
        [["set", [1]], ["list"]],
        [["dict", [[1]], [0]], ["list"]], [["dict", [[1]], [0]], ["object", "Spot", ["x"], [1]]], [["dict", [1], []]],
        [["list", [5]]], [["list", [-1]]], [["list", []]], [["list", ["a"]]], [["nothing"]], [[]], CHAIN,
        [["bytes", 0]], [["bytes", -1]], [["file", "a", "b", 1, 3]], [["int", "x"]], [["text", b"\xff"]],
        [["scalar", "O", b"8" * 8]], [["scalar", "<f8", b"8"]], [["scalar", "V8", b"8" * 8]],
        [["array", *LIES, "'<f8'", [1], [8], True]],
    ],
)  # fmt: skip
def test_nonsense_that_somebody_has_signed_is_refused(nodes):
    data = signed(header_with(nodes=nodes, values={"state._value": [0]}))
    with pytest.raises(CommandError) as raised:
        read(data)
    assert raised.value.code in ("damaged_world", "foreign_world")


ENTRY = [128, [np.full(32, 1, np.uint8).tobytes()]]


@pytest.mark.parametrize(
    "array",
    [
        ["array", *LIES, "'<f8'", [17], [8], True], ["array", *LIES, "'<f8'", [2**62], [8], True],
        ["array", *LIES, "'<f8'", [2], [-8], True], ["array", *LIES, "'<f8'", [-1], [8], True],
        ["array", *LIES, "'<f8'", [1, 1], [8], True], ["array", *LIES, "'O'", [1], [8], True],
        ["array", [0, 0, "cpu", False], -8, "'<f8'", [1], [8], True], ["array", *LIES, "__import__('os')", [1], [8], True],
        ["array", *LIES, "[" * 500, [1], [8], True], ["array", [0, 64, "cpu", False], 0, "'<f8'", [1], [8], True],
        ["array", *LIES, "'<f8'", [1.5], [8], True], ["tensor", *LIES, "float32", 4, [2], [-1], "cpu"],
        ["tensor", *LIES, "float32", 0, [2], [1], "cpu"], ["tensor", [0, 0, "cpu", True], 2, "float32", 4, [1], [1], "cpu"],
        ["tensor", [0, 0, "cpu", True], 0, "float32", 4, [33], [1], "cpu"],
    ],
)  # fmt: skip
def test_an_array_that_lies_outside_its_memory_is_refused(array):
    from reactor_trio.worlds.file_header import digest_of

    blob = bytes(128)
    header = header_with(nodes=[array], values={"state._value": [0]}, blobs=[[128, [digest_of(blob)]]])
    with pytest.raises(CommandError) as raised:
        read(signed(header, blob))
    assert raised.value.code == "damaged_world"


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (["dice", "random.Random", b"x"], "no state of such a generator"),
        (["dice", "os.System", b"x"], "os.System is no generator that is known here"),
        (["dice", "numpy.Generator:__class__", b"x"], "NumPy has no bit generator __class__"),
        (["object", "Record", ["nme"], [1]], "Unexpected keyword argument 'nme'"),
        (["object", "Tile", ["x"], [1]], "Tile has other fields than x"),
        (["object", "Spot", ["z"], [1]], "Spot has no attribute z"),
    ],
)
def test_what_only_a_put_can_know_is_refused_there(array, said):
    model = model_of(types=CLASSES)
    world = read(signed(header_with(nodes=[array], values={"state._value": [0], "state._more": 1, "state.speed": 1.0})))
    with pytest.raises(CommandError, match=said) as raised:
        prepare(model, world, alone=False)
    assert raised.value.code == "restore_failed"


@pytest.mark.parametrize("length", [2**63, 2**40, 10**6])
def test_a_huge_length_allocates_nothing(length):
    body = packed(captured(sample()))
    tracemalloc.start()
    try:
        for data in (
            body[:8] + length.to_bytes(8, "little") + body[16:],
            signed(header_with(blobs=[[length, [b"d" * 32] * math.ceil(min(length, 2**20) / CHUNK)]])),
        ):
            with pytest.raises(CommandError):
                read(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body) + 200_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_damaged_costs_no_more_memory_than_twice_its_bytes():
    model = model_of()
    model.state._value = [np.ones(500_000), b"q" * 1_000_000]
    whole = packed(captured(model))
    changed = bytearray(whole)
    changed[-40] ^= 1  # of the last blob
    for data in (bytes(changed), whole[: len(whole) // 2]):
        tracemalloc.start()
        try:
            with pytest.raises(CommandError):
                read(data)
            assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 200_000
        finally:
            tracemalloc.stop()


def test_deep_nesting_and_a_million_values_are_refused():
    model = model_of()
    for value in ({"values": {"a": [0]}, "nodes": [["list", *[0] * 1_000_001]]}, {"nodes": [[1]], "values": {"a": deep()}}):
        data = signed(header_with(**value))
        with pytest.raises(CommandError) as raised:
            read(data)
        assert raised.value.code == "damaged_world"
    assert model.state._value is None


def deep() -> Any:
    return msgspec.Raw(b"\x91" * 100_000 + b"\x00")


CHANGES = st.sampled_from(
    [0, -1, 1, 2**63, 1.5, None, "", "cpu", "list", b"", True, [], [0], [3], ["list"], {}, "float32", "'<f8'", 10**9]
)


@hypothesis.settings(max_examples=150, deadline=None, derandomize=True, print_blob=True)
@hypothesis.given(st.data())
def test_whatever_is_signed_is_read_or_refused_and_nothing_else_happens(data):
    """One or two places of a good header become something else; it is signed again."""
    model = sample()
    whole = packed(captured(model))
    length = int.from_bytes(whole[8:16], "little")
    header = msgspec.msgpack.decode(whole[16 : 16 + length])
    for _ in range(data.draw(st.integers(1, 2))):
        found = list(places(header))
        holder, place = found[data.draw(st.integers(0, len(found) - 1))]
        holder[place] = data.draw(CHANGES)
    body = msgspec.msgpack.encode(header)
    head = MAGIC + len(body).to_bytes(8, "little") + body
    blobs = whole[16 + length + -(16 + length) % 64 : -32]
    before = model.state._value
    with contextlib.suppress(CommandError):
        world = read(head + bytes(-len(head) % 64) + blobs + mac_of(KEY, head))
        prepare(model, world, alone=False)
    assert model.state._value is before


def places(value: Any):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


@pytest.mark.parametrize(
    ("saved", "accept", "code", "said"),
    [
        ({"model": "other:Model"}, (), "foreign_world", "the world is of another model: other:Model, and here is dream"),
        ({"model": "other:Model"}, ("model",), "foreign_world", "the world is of another model"),
        ({"world_size": 2}, (), "foreign_world", "the world is of another world size: 2, and here is 1"),
        ({"config": "d"}, (), "foreign_world", "the world is of another config"),
        ({"config": "d"}, ("weights",), "foreign_world", "the world is of another config"),
        ({"weights": "d"}, ("config",), "foreign_world", "the world is of another weights"),
        ({"version": 4}, (), "old_world", "the world has the version 4, and dream:Dream reads 2, 3, 1"),
    ],
)
def test_a_world_of_another_model_is_refused(saved, accept, code, said):
    with pytest.raises(CommandError) as raised:
        check_origin(msgspec.structs.replace(ORIGIN, **saved), ORIGIN, reads=(2, 3), accept=accept)
    assert raised.value.code == code
    assert said in str(raised.value)


def test_what_may_differ_is_a_warning():
    saved = msgspec.structs.replace(
        ORIGIN, version=2, config="d", weights="v", schema_hash="t", versions={"numpy": "1", "torch": "2"}
    )
    assert check_origin(saved, ORIGIN, reads=(2,), accept=("config", "weights")) == [
        "the world is of another config", "the world is of another weights",
        "the model's commands, tracks or messages have changed since", "numpy was 1, and here it is 2",
    ]  # fmt: skip
    assert check_origin(ORIGIN, ORIGIN) == []


def test_the_envelope_of_a_parked_session_travels_along():
    file = io.BytesIO(packed(captured(model_of()), envelope=b"letters"))
    header = read_header(file, (KEY,), 1 << 30)
    assert isinstance(header, Header)
    assert (header.envelope, header.origin) == (b"letters", ORIGIN)
    assert declared_world(model_of()).saves.version == 1
