"""What is in a `.world` file, for people: its values as a tree, without the model, its classes or its memory.

The file may come from anybody. So each node of the header is looked at as foreign data, values that lie deep in each other
are cut, and a blob is read to compare its digest alone, a piece at a time.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from itertools import islice
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec
import numpy as np
from numpy.lib.format import descr_to_dtype

from reactor_trio.worlds.file_header import CHUNK, Header, damaged, digest_of
from reactor_trio.worlds.nodes import DEEPEST
from reactor_trio.worlds.unpacking import scalar, skip_padding

#: the parts of one value that are described, and the parts of all together
SHOWN, MOST_SHOWN = 12, 2000
#: characters of a text that are shown
LONGEST: Final = 60

#: the parts of a value: the name and the cell of each
_Parts: TypeAlias = Iterable[tuple[str, Any]]


class Described(msgspec.Struct, omit_defaults=True):
    """A value of a world in words.

    Attributes:
        name: where it lies: a path of the world, or an index, key or attribute of the value around it.
        value: what it is.
        parts: the values in it, if they are shown.
        left_out: how many more there are in it.
    """

    name: str
    value: str
    parts: list[Described] = []
    left_out: int = 0


def check_blobs(file: BinaryIO, header: Header) -> None:
    """Compare the blobs behind a header that `read_header` has just read with their digests. Raises CommandError."""
    for blob in header.blobs:
        skip_padding(file)
        left = blob.size
        for expected in blob.digests:
            piece = file.read(min(left, CHUNK))
            left -= len(piece)
            if digest_of(piece) != expected:
                raise damaged("the content of a blob has changed")


def describe(header: Header, depth: int) -> list[Described]:
    """Describe the values of a world, and those that lie in them up to this depth. Raises CommandError `damaged_world`."""
    tree, depth = _Tree(header), min(depth, DEEPEST)
    try:
        found = [tree.described(path, path, cell, depth) for path, cell in header.values.items()]
        if header.saved is not None:
            found.append(tree.described("@saving", "@saving", header.saved, depth))
    except (ValueError, TypeError, IndexError, KeyError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
        raise damaged(f"a value cannot be read: {error}") from None
    process = "of the whole process"
    found += [Described(kind, f"generator of random numbers {process}") for kind in header.generators]
    others = header.blobs[len(header.blobs) - header.others :] if header.others > 0 else []
    return found + [Described(f"rank {rank}", f"its part, {part.size} bytes") for rank, part in enumerate(others, start=1)]


class _Tree:
    def __init__(self, header: Header) -> None:
        self._header = header
        self._left = MOST_SHOWN
        #: the number of a node -> where it was described first
        self._places: dict[int, str] = {}

    def described(self, name: str, place: str, cell: Any, depth: int) -> Described:
        """Describe the value of a cell; `place` names it for those that share it. Raises ValueError and its like."""
        self._left -= 1
        if cell is None or isinstance(cell, (bool, int, float, str, bytes)):
            return Described(name, _plain(cell))
        (number,) = cell
        if type(number) is not int or number < 0:
            raise ValueError("no number of a node")
        if number in self._places:
            return Described(name, f"the same as {self._places[number]}")
        self._places[number] = place
        kind, *content = self._header.nodes[number]
        value, count, parts = self._node(kind, content)
        made = Described(name, value)
        if depth > 0:
            for inner, each in islice(parts, SHOWN):
                if self._left <= 0:
                    break
                made.parts.append(self.described(inner, place + inner, each, depth - 1))
        made.left_out = count - len(made.parts)
        return made

    def _node(self, kind: str, content: list[Any]) -> tuple[str, int, _Parts]:
        """What a node is in words, how many parts it has, and the parts."""
        match kind, content:
            case ("list" | "tuple" | "set" | "frozenset"), cells:
                return f"{kind} of {len(cells)}", len(cells), _indexed(cells)
            case "deque", [maxlen, *cells]:
                most = "" if maxlen is None else f", at most {maxlen}"
                return f"deque of {len(cells)}{most}", len(cells), _indexed(cells)
            case "dict", [list(keys), list(values)] if len(keys) == len(values):
                named = ((f"[{self._key(key)}]", value) for key, value in zip(keys, values, strict=True))
                return f"dict of {len(keys)}", len(keys), named
            case "object", [str(cls), list(names), list(values)] if len(names) == len(values):
                attributes = ((f".{_cut(str(name))}", value) for name, value in zip(names, values, strict=True))
                return _cut(cls), len(names), attributes
        return self._leaf(kind, content), 0, ()

    def _leaf(self, kind: str, content: list[Any]) -> str:
        match kind, content:
            case "array", [_, _, str(dtype), list(shape), *_]:
                return f"{_size(shape)} {_cut(str(descr_to_dtype(ast.literal_eval(dtype))))} array"
            case "tensor", [[_, _, str(device), *_], _, str(dtype), _, list(shape), *_]:
                return f"{_size(shape)} {_cut(dtype)} tensor on {_cut(device)}"
            case "dice", [str(name), bytes()]:
                return f"generator of random numbers {_cut(name)}"
            case "file", [str(name), str(mime_type), int(size), int()]:
                return f"file {_text(name)}, {_cut(mime_type)}, {size} bytes"
            case "bytes", [int(blob)] if blob >= 0:
                return f"{self._header.blobs[blob].size} bytes"
            case "enum", [str(cls), str(member)]:
                return _cut(f"{cls}.{member}")
            case "flag", [str(cls), value]:
                return f"{_cut(cls)}({self._key(value)})"
            case "int", [str(digits)]:
                return _cut(digits)
            case "text", [bytes(data)]:
                return _text(data.decode("utf-8", "surrogatepass"))
            case "scalar", [str(dtype), bytes(data)]:
                return _cut(f"{np.dtype(dtype)} {scalar(dtype, data)}")
        raise ValueError(f"no node: {kind}"[:80])

    def _key(self, cell: Any) -> str:
        """A key of a dict, or another small value, in a few characters."""
        if cell is None or isinstance(cell, (bool, int, float, str, bytes)):
            return _plain(cell)
        kind, *content = self._header.nodes[cell[0]]
        return self._node(kind, content)[0]


def _indexed(cells: list[Any]) -> _Parts:
    return ((f"[{index}]", cell) for index, cell in enumerate(cells))


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    """A text in quotes, without characters that a terminal would obey, and cut."""
    return repr(text if len(text) <= LONGEST else text[:LONGEST] + "...")


def _cut(text: str) -> str:
    """A name or number of the file, which may be anything, without quotes."""
    return _text(text)[1:-1]


def _size(shape: list[Any]) -> str:
    if not all(type(length) is int and 0 <= length < math.inf for length in shape):
        raise ValueError("no shape")
    return "x".join(map(str, shape)) or "single"
