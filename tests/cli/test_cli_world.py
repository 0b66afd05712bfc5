"""`reactor world FILE`: what is in the file of a saved world, without the model; and no file makes it fail otherwise."""

from __future__ import annotations

import json
import sys
from collections import deque

import msgspec
import numpy as np
import pytest
from tests.worlds.kit import captured, model_of
from tests.worlds.test_values import CLASSES, Heading, Spot, Tile, Walker

from reactor_trio.cli import main
from reactor_trio.interface import UploadedFile
from reactor_trio.worlds.file_header import MAGIC, Header, Origin
from reactor_trio.worlds.packing import pack

KEY = b"k" * 31 + b"\n"
ORIGIN = Origin(
    model="dream:Dream", name="dream", version=2, schema_hash="s", weights="abc", versions={"numpy": "2"}, session="1f2e",
    subject="anna", label="at the \x1b[2Jgate", saved_at=86400.0,
)  # fmt: skip


def world_file(folder, value, *, key=KEY, origin=ORIGIN, **options):
    model = model_of(types=CLASSES)
    model.state._value = value
    path = folder / "maze.world"
    path.write_bytes(b"".join(pack(captured(model, **options), origin, key, most_bytes=1 << 30)))
    return path


@pytest.fixture
def reactor(capsys):
    def run(*arguments):
        code = main(["world", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def test_it_says_what_the_file_has_in_lines_for_people(tmp_path, reactor):
    grid = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    value = {
        "grid": grid, "again": grid, "walker": Walker([0.5], Tile(1, Spot(2.0))), "die": np.random.default_rng(3),
        "past": deque([grid[0], grid[1]], 2), "file": UploadedFile("a.png", "image/png", b"p" * 10), "north": Heading.EAST,
        "long": list(range(100)), "big": 2**100, "bytes": b"q" * 3000,
    }  # fmt: skip
    code, out, err = reactor(world_file(tmp_path, value, step=7, steps=5, age=1.5), "--depth", "9")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for line in (
        "model      dream:Dream, served as dream", "saved      1970-01-02 00:00:00 UTC", "name       at the [2Jgate",
        "subject    anna", "session    1f2e", "step       7 of its session; the world has made 5",
        "age        1.500 s of the world's own time", "version    2", "weights    abc", "world_size 1", "versions   numpy 2",
        "signature  not checked: there is no key beside the file; name one with --key-file", "state.speed: 1.0",
        "state._value: dict of 10", "  ['grid']: 3x4 float32 array", "  ['again']: the same as state._value['grid']",
        "  ['walker']: Walker", "  ['die']: generator of random numbers numpy.Generator:PCG64",
        "  ['past']: deque of 2, at most 2", "    [0]: 4 float32 array", "  ['file']: file 'a.png', image/png, 10 bytes",
        "  ['north']: Heading.EAST", "  ['long']: list of 100", "    [11]: 11", "    ... 88 more", "  ['bytes']: 3000 bytes",
    ):  # fmt: skip
        assert line in lines, line
    assert not any("\x1b" in line for line in lines)


def test_values_that_lie_deeper_are_left_out(tmp_path, reactor):
    _, out, _ = reactor(world_file(tmp_path, [[["deep"]]]), "--depth", "2")
    shown = ["state._value: list of 1", "  [0]: list of 1", "    [0]: list of 1", "      ... 1 more"]
    assert out.splitlines()[-5:-1] == shown


def test_a_value_that_holds_itself_is_told_once(tmp_path, reactor):
    row: list[object] = [1]
    row.append(row)
    _, out, _ = reactor(world_file(tmp_path, row))
    assert "  [1]: the same as state._value" in out.splitlines()


def test_as_json(tmp_path, reactor):
    path = world_file(tmp_path, {"grid": np.zeros((2, 3), np.uint8)})
    code, out, _ = reactor(path, "--json")
    found = json.loads(out)
    assert (code, found["model"], found["version"], found["step"]) == (0, "dream:Dream", 2, 3)
    assert found["bytes"] == path.stat().st_size
    (value,) = [each for each in found["values"] if each["name"] == "state._value"]
    assert value["parts"] == [{"name": "['grid']", "value": "2x3 uint8 array"}]
    assert len(found["digest"]) == 32


def test_the_signature_is_checked_with_the_key_beside_the_file_or_a_named_one(tmp_path, reactor):
    path = world_file(tmp_path, 1)
    assert reactor(path, "--json")[1].count("not checked") == 1
    (tmp_path / "key").write_bytes(KEY)
    assert f"signature  checked with {tmp_path / 'key'}" in reactor(path)[1]
    (tmp_path / "key").write_bytes(b"o" * 32)
    code, _, err = reactor(path)
    assert code == 2
    assert err.startswith(f"reactor: {path}: no key of this server has signed the world, or its file is damaged (")
    (tmp_path / "named").write_bytes(KEY)
    assert f"signature  checked with {tmp_path / 'named'}" in reactor(path, "--key-file", tmp_path / "named")[1]
    code, _, err = reactor(path, "--key-file", tmp_path / "none")
    assert (code, err.count("\n")) == (2, 1)
    assert "--key-file: cannot read" in err
    world_file(tmp_path, 1, key=KEY.strip())  # as a key of `runtime.worlds.keys`, whose file ends with a line end
    assert reactor(path, "--key-file", tmp_path / "named")[0] == 0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-1], "damaged: it has"),
        (lambda data: data[:10], "damaged: it does not begin as one"),
        (lambda data: b"", "damaged: it does not begin as one"),
        (lambda data: data[:-40] + b"X" + data[-39:], "damaged: the content of a blob has changed"),
        (lambda data: MAGIC[:6] + b"2\n" + data[8:], "newer format"),
        (lambda data: data[:8] + b"\xff" * 8 + data[16:], "damaged: it does not begin as one"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, reactor, spoil, said):
    path = world_file(tmp_path, np.zeros(100))
    path.write_bytes(spoil(path.read_bytes()))
    code, out, err = reactor(path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert str(path) in err


@pytest.mark.parametrize("node", [["array"], ["list", [99]], [], ["scalar", "O", b""], ["array", 0, 0, "(" * 5000, [1], []]])
def test_nonsense_that_somebody_has_written_is_one_line(tmp_path, reactor, node):
    header = Header(
        origin=ORIGIN, step=0, steps=0, age=0.0, fps=None, nodes=[node], values={"x": [0]}, saved=None, generators={},
        blobs=[],
    )  # fmt: skip
    data = msgspec.msgpack.encode(header)
    path = tmp_path / "maze.world"
    path.write_bytes(MAGIC + len(data).to_bytes(8, "little") + data + bytes(32))
    code, out, err = reactor(path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a value cannot be read" in err


def test_a_missing_file_and_a_folder_are_one_line(tmp_path, reactor):
    for path in (tmp_path / "none.world", tmp_path):
        code, _, err = reactor(path)
        assert (code, err.count("\n")) == (2, 1)
        assert "cannot be read" in err


def test_no_model_is_imported(tmp_path, reactor):
    (tmp_path / "dream.py").write_text("raise AssertionError('imported')")
    assert reactor(world_file(tmp_path, Walker([0.5], None)))[0] == 0
    assert "dream" not in sys.modules
