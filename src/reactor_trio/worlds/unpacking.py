"""Unpack: a `.world` file becomes a world again.

First the header is verified, which needs as much memory as it has bytes. Only then are the blobs read. Whoever has a key
could still sign nonsense, so each node is checked as well; no class is made that the model does not list, and no code of the
author runs.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import descr_to_dtype

from reactor_trio.errors import CommandError
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.saving import is_named_tuple
from reactor_trio.worlds.buffers import bounds
from reactor_trio.worlds.file_header import (
    ALIGNMENT,
    CHUNK,
    HEAD_BYTES,
    MAC_BYTES,
    MAGIC,
    MOST_HEADER,
    BlobEntry,
    Header,
    damaged,
    decode_header,
    digest_of,
    is_signed,
)
from reactor_trio.worlds.nodes import (
    DEEPEST,
    MOST_VALUES,
    VALUE_BYTES,
    Array,
    Buffer,
    Dice,
    Instance,
    Items,
    Node,
    Pairs,
    Tensor,
    World,
)
from reactor_trio.worlds.packing import Mapper, chunks_of


def read_head(file: BinaryIO, most_bytes: int) -> bytes:
    """Read what stands before the blobs, whoever has written it. Raises CommandError `damaged_world` or `too_big`."""
    size = file.seek(0, 2)
    file.seek(0)
    if size > most_bytes:
        raise CommandError("too_big", f"the file of the world has {size} bytes, and {most_bytes} are allowed")
    head = file.read(HEAD_BYTES)
    if head[:6] == MAGIC[:6] and head[7:8] == MAGIC[7:] and head[6:7].isdigit() and head[6:7] > MAGIC[6:7]:
        raise CommandError("foreign_world", "the file of the world has a newer format; update reactor-trio")
    length = int.from_bytes(head[len(MAGIC) :], "little")
    if head[: len(MAGIC)] != MAGIC or length > min(MOST_HEADER, size - HEAD_BYTES - MAC_BYTES):
        raise damaged("it does not begin as one")
    return head + file.read(length)


def read_header(file: BinaryIO, keys: Sequence[bytes] | None, most_bytes: int) -> Header:
    """Verify and read the header of a file, which then stands at its first blob.

    Without keys the signature is not checked; everything else is.

    Raises CommandError: `damaged_world`, `too_big`, or `foreign_world` if none of the keys has signed it.
    """
    head = read_head(file, most_bytes)
    size = file.seek(0, 2)
    file.seek(size - MAC_BYTES)
    if keys is not None and not is_signed(keys, head, file.read(MAC_BYTES)):
        raise CommandError("foreign_world", "no key of this server has signed the world, or its file is damaged")
    header = decode_header(memoryview(head)[HEAD_BYTES:])
    at = len(head)
    for blob in header.blobs:
        if blob.size < 0 or len(blob.digests) != -(-blob.size // CHUNK):
            raise damaged("its header says nothing sensible of a blob")
        at += -at % ALIGNMENT + blob.size
    if at + MAC_BYTES != size:
        raise damaged(f"it has {size} bytes instead of {at + MAC_BYTES}")
    file.seek(len(head))
    return header


def read_world(file: BinaryIO, header: Header, classes: Mapping[str, type], *, mapped: Mapper = map) -> World:
    """Read the world behind a header that `read_header` has just read.

    Args:
        file: stands at its first blob.
        header: the verified header.
        classes: those whose instances may be made, by their names.
        mapped: makes the digests of the blobs, see `pack`.

    Raises CommandError: `damaged_world`, or `foreign_world` for a class that the model does not list.
    """
    blobs = [_read_blob(file, blob) for blob in header.blobs]
    digests = [digest for blob in header.blobs for digest in blob.digests]
    for made, expected in zip(
        mapped(digest_of, (chunk for blob in blobs for chunk in chunks_of(blob.data))), digests, strict=True
    ):
        if made != expected:
            raise damaged("the content of a blob has changed")
    return world_of(header, blobs, classes)


def world_of(header: Header, blobs: list[np.ndarray[Any, Any]], classes: Mapping[str, type]) -> World:
    """Make the world of a header and its blobs. Raises CommandError, as `read_world`."""
    own = len(blobs) - header.others
    if not 0 <= own <= len(blobs):
        raise damaged("it does not have as many parts of ranks as its header says")
    tree = _Nodes(header.nodes, blobs[:own], classes)
    try:
        values = {path: tree.node(cell, 0) for path, cell in header.values.items()}
        saved = tree.node(header.saved, 0)
    except (ValueError, TypeError, IndexError, KeyError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
        raise damaged(f"a value cannot be read: {error}") from None
    if not (saved is None or isinstance(saved, Pairs)):
        raise damaged("what @saving returned is no dict")
    small = VALUE_BYTES * tree.count + sum(len(state) for state in header.generators.values())
    return World(
        header.step, header.steps, header.age, header.fps, values, saved, header.generators, tree.used, small,
        others=tuple(blobs[own:]),
    )


def skip_padding(file: BinaryIO) -> None:
    """Go on to the next blob. Raises CommandError `damaged_world` if there is something in between."""
    if file.read(-file.tell() % ALIGNMENT).strip(b"\0"):
        raise damaged("there is something between two blobs")


def _read_blob(file: BinaryIO, entry: BlobEntry) -> np.ndarray[Any, Any]:
    skip_padding(file)
    data = np.empty(entry.size, np.uint8)
    view = data.data
    while view:
        count = file.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise damaged("it ends too early")
        view = view[count:]
    return data


class _Nodes:
    """The nodes of a file, each made once.

    Attributes:
        used: the memory that the nodes refer to, for `World.blobs`.
        count: how many values there were.
    """

    def __init__(self, nodes: list[list[Any]], blobs: list[np.ndarray[Any, Any]], classes: Mapping[str, type]) -> None:
        self.used: dict[int, Buffer | bytes] = {}
        self.count = 0
        self._nodes = nodes
        self._blobs = blobs
        self._classes = classes
        self._made: dict[int, Node] = {}
        self._open: set[int] = set()
        self._buffers: dict[int, Buffer] = {}
        self._bytes: dict[int, bytes] = {}

    def node(self, cell: Any, depth: int) -> Node:
        """Return what a cell of the file stands for. Raises ValueError and its like for nonsense."""
        self.count += 1
        if self.count > MOST_VALUES or depth > DEEPEST:
            raise ValueError("there are too many values, or they lie in each other too deep")
        if cell is None or isinstance(cell, (bool, int, float, str, bytes)):
            return cell
        (number,) = cell
        if type(number) is not int or number < 0:
            raise ValueError("no number of a node")
        if number in self._made:
            return self._made[number]
        if number in self._open:
            raise ValueError("a value that cannot hold itself does")
        self._open.add(number)
        kind, *content = self._nodes[number]
        made = self._holder(number, kind, content, depth)
        if made is None:
            made = self._leaf(kind, content, depth)
        self._open.discard(number)
        self._made[number] = made
        return made

    def _each(self, cells: list[Any], depth: int) -> list[Node]:
        return [self.node(cell, depth + 1) for cell in cells]

    def _holder(self, number: int, kind: str, content: list[Any], depth: int) -> Node:
        """Make a node that holds others; None for another kind."""
        match kind, content:
            case "list", items:
                node = self._made[number] = Items("list", [])
                node.items += self._each(items, depth)
                return node
            case "deque", [int() | None as maxlen, *items] if maxlen is None or len(items) <= maxlen < 2**63:
                node = self._made[number] = Items("deque", [], maxlen)
                node.items += self._each(items, depth)
                return node
            case ("tuple" | "set" | "frozenset"), items:
                closed = Items(kind, self._each(items, depth))
                if kind != "tuple":
                    self._check_keys(closed.items)
                return closed
            case "dict", [list(keys), list(values)] if len(keys) == len(values):
                pairs = self._made[number] = Pairs([], [])
                pairs.keys += self._each(keys, depth)
                self._check_keys(pairs.keys)
                pairs.values += self._each(values, depth)
                return pairs
            case "object", [str(name), list(names), list(values)] if len(names) == len(values):
                return self._instance(number, self._class(name, is_enum=False), names, values, depth)
        return None

    def _leaf(self, kind: str, content: list[Any], depth: int) -> Node:
        match kind, content:
            case "enum", [str(name), str(member)]:
                return self._class(name, is_enum=True)[member]  # type: ignore[index]
            case "flag", [str(name), value]:
                return self._class(name, is_enum=True)(self.node(value, depth + 1))
            case "array", [buffer, int(offset), str(described), list(shape), list(strides), bool(writeable)]:
                return self._array(buffer, offset, described, shape, strides, writeable)
            case "tensor", [buffer, int(offset), str(dtype), int(size), list(shape), list(strides), str(device)]:
                tensor = Tensor(dtype, size, tuple(shape), tuple(strides), device, offset, self._buffer(buffer))
                self._check_in_memory(tensor, [stride * size for stride in strides], size)
                return tensor
            case "file", [str(name), str(mime_type), int(size), int(blob)]:
                return UploadedFile(name, mime_type, size, self._long(blob))
            case "bytes", [int(blob)]:
                return self._long(blob)
        return _small_leaf(kind, content)

    def _class(self, name: str, *, is_enum: bool) -> type:
        cls = self._classes.get(name)
        if cls is None:
            raise CommandError("foreign_world", f"the world has an instance of {name[:80]}, which types= does not list")
        if issubclass(cls, enum.Enum) is not is_enum:
            raise ValueError(f"{name} is another kind of class")
        return cls

    def _instance(self, number: int, cls: type, names: list[Any], values: list[Any], depth: int) -> Node:
        node = Instance(cls, [str(name) for name in names], [])
        if not is_named_tuple(cls):
            self._made[number] = node
        node.values += self._each(values, depth)
        return node

    def _check_keys(self, nodes: list[Node]) -> None:
        """Raise ValueError for keys that cannot be looked up, or only by code of the author."""
        for node in nodes:
            if isinstance(node, Items) and node.kind in ("tuple", "frozenset"):
                self._check_keys(node.items)
            elif isinstance(node, Instance) and is_named_tuple(node.cls):
                self._check_keys(node.values)
            elif isinstance(node, (Items, Pairs, Instance, Array, Tensor, Dice)):
                raise ValueError("no key of a dict or set")

    def _array(
        self, buffer: list[Any], offset: int, described: str, shape: list[Any], strides: list[Any], writeable: bool
    ) -> Array:
        dtype = descr_to_dtype(ast.literal_eval(described))
        if dtype.hasobject:
            raise ValueError("an array of objects")
        array = Array(dtype, tuple(shape), tuple(strides), writeable, offset, self._buffer(buffer))
        self._check_in_memory(array, strides, dtype.itemsize)
        return array

    def _check_in_memory(self, node: Array | Tensor, strides: Sequence[int], itemsize: int) -> None:
        assert node.buffer is not None
        numbers = (*node.shape, *node.strides)
        if len(node.shape) != len(node.strides) or not all(type(number) is int for number in numbers):
            raise ValueError("no shape")
        low, high = bounds(node.offset, node.shape, tuple(strides), itemsize)
        if any(length < 0 for length in node.shape) or low < 0 or high > node.buffer.data.nbytes:
            raise ValueError("an array that lies outside its memory")
        if isinstance(node, Tensor) and (
            itemsize < 1 or any(stride < 0 for stride in strides) or (node.offset + node.buffer.phase) % itemsize
        ):
            raise ValueError("no tensor")

    def _buffer(self, given: list[Any]) -> Buffer:
        match given:
            case [int(blob), int(phase), str(device), bool(tensors)] if blob >= 0 and 0 <= phase < ALIGNMENT:
                buffer = self._buffers.setdefault(blob, Buffer(self._blobs[blob], phase, device, tensors))
                if (buffer.phase, buffer.device, buffer.tensors) == (phase, device, tensors):
                    self.used[id(buffer)] = buffer
                    return buffer
        raise ValueError("no memory")

    def _long(self, blob: int) -> bytes:
        if blob not in self._bytes:
            if blob < 0:
                raise ValueError("no blob")
            self._bytes[blob] = self._blobs[blob].tobytes()
            self.used[id(self._bytes[blob])] = self._bytes[blob]
        return self._bytes[blob]


def _small_leaf(kind: str, content: list[Any]) -> Node:
    match kind, content:
        case "dice", [str(name), bytes(state)]:
            return Dice(name, state)
        case "int", [str(digits)]:
            return int(digits, 16)
        case "text", [bytes(text)]:
            return text.decode("utf-8", "surrogatepass")
        case "scalar", [str(described), bytes(data)]:
            return scalar(described, data)
    raise ValueError(f"no node: {kind}"[:80])


def scalar(described: str, data: bytes) -> Any:
    """Return the NumPy scalar of these bytes. Raises ValueError and TypeError for nonsense."""
    dtype = np.dtype(described)
    if dtype.hasobject or dtype.kind == "V" or len(data) != dtype.itemsize:
        raise ValueError("no scalar")
    return np.frombuffer(data, dtype)[0] if data else dtype.type()
