"""Pack: a world as the bytes of a `.world` file. Its arrays stay where they are; only the header is made."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.lib.format import dtype_to_descr

from reactor_trio.errors import CommandError
from reactor_trio.interface.files import UploadedFile
from reactor_trio.worlds.file_header import (
    ALIGNMENT,
    CHUNK,
    MAGIC,
    MOST_HEADER,
    BlobEntry,
    Header,
    Origin,
    digest_of,
    mac_of,
)
from reactor_trio.worlds.nodes import SHORT, Array, Buffer, Dice, Instance, Items, Node, Pairs, Tensor, World

#: `map`, or what does the same on several threads
Mapper = Callable[[Callable[[memoryview], bytes], Iterable[memoryview]], Iterable[bytes]]

_WORD: Final = range(-(2**63), 2**64)


def pack(
    world: World, origin: Origin, key: bytes, *, most_bytes: int, envelope: bytes = b"", mapped: Mapper = map
) -> list[memoryview]:
    """Return the parts of the file, in order. They are views of the world's memory, which nobody changes.

    Args:
        world: what was captured.
        origin: where it comes from.
        key: signs it.
        most_bytes: how long the file may be.
        envelope: of a parked session.
        mapped: makes the digests of the blobs, of 16 MiB each; hashing releases the GIL.

    Raises CommandError `too_big`.
    """
    if world.size > most_bytes:
        raise too_big(world.size, most_bytes)
    header, blobs = pack_header(world, origin, envelope, mapped)
    head = MAGIC + header
    parts = [memoryview(head)]
    at = len(head)
    for blob in blobs:
        parts += [memoryview(bytes(-at % ALIGNMENT)), blob]
        at += -at % ALIGNMENT + len(blob)
    parts.append(memoryview(mac_of(key, head)))
    return [part for part in parts if len(part)]


def pack_header(world: World, origin: Origin, envelope: bytes, mapped: Mapper) -> tuple[bytes, list[memoryview]]:
    """Return the header behind its length, and the blobs. Raises CommandError `too_big`."""
    tree = _Tree()
    values = {path: tree.cell(node) for path, node in world.values.items()}
    saved = tree.cell(world.saved)
    blobs = tree.blobs + [part.data for part in world.others]
    chunks = [chunks_of(blob) for blob in blobs]
    digests = iter(mapped(digest_of, (chunk for each in chunks for chunk in each)))
    header = msgspec.msgpack.encode(
        Header(
            origin=origin, step=world.step, steps=world.steps, age=world.age, fps=world.fps, nodes=tree.nodes, values=values,
            saved=saved, generators=world.generators, others=len(world.others), envelope=envelope,
            blobs=[BlobEntry(len(blob), [next(digests) for _ in each]) for blob, each in zip(blobs, chunks, strict=True)],
        )
    )  # fmt: skip
    if len(header) > MOST_HEADER:
        raise too_big(len(header), MOST_HEADER)
    return len(header).to_bytes(8, "little") + header, blobs


def too_big(size: int, most: int) -> CommandError:
    """Return the error for a world that is too large to be saved."""
    return CommandError("too_big", f"the world has {size} bytes, and {most} may be saved")


def chunks_of(blob: memoryview) -> list[memoryview]:
    """Return a blob in the pieces that have a digest each."""
    return [blob[begin : begin + CHUNK] for begin in range(0, len(blob), CHUNK)]


class _Tree:
    """The nodes of a world as lists: each node once, by its number.

    Attributes:
        nodes: the lists, each with the name of its kind first.
        blobs: the memory that lies behind the header.
    """

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.blobs: list[memoryview] = []
        self._numbers: dict[int, int] = {}
        self._blob_numbers: dict[int, int] = {}

    def cell(self, node: Node) -> Any:
        """Return a plain value as it is, and `[number]` for all else."""
        kind = type(node)
        if node is None or kind in (bool, float):
            return node
        if kind is int:
            return node if node in _WORD else self._new(["int", hex(node)])
        if kind is str:
            return node if not _has_surrogates(node) else self._new(["text", node.encode("utf-8", "surrogatepass")])
        if kind is bytes and len(node) < SHORT:
            return node
        if id(node) in self._numbers:
            return [self._numbers[id(node)]]
        number = self._numbers[id(node)] = len(self.nodes)
        self.nodes.append([])
        self.nodes[number] += self._described(node)
        return [number]

    def _new(self, described: list[Any]) -> list[int]:
        self.nodes.append(described)
        return [len(self.nodes) - 1]

    def _described(self, node: Node) -> list[Any]:
        match node:
            case Items("deque", items, maxlen):
                return ["deque", maxlen, *map(self.cell, items)]
            case Items(kind, items):
                return [kind, *map(self.cell, items)]
            case Pairs(keys, values):
                return ["dict", list(map(self.cell, keys)), list(map(self.cell, values))]
            case Instance(cls, names, values):
                return ["object", cls.__qualname__, names, list(map(self.cell, values))]
            case Array():
                described = repr(dtype_to_descr(node.dtype))
                lies = self._buffer(node.buffer), node.offset
                return ["array", *lies, described, node.shape, node.strides, node.writeable]
            case Tensor():
                lies = self._buffer(node.buffer), node.offset
                return ["tensor", *lies, node.dtype, node.itemsize, node.shape, node.strides, node.device]
            case Dice(kind, state):
                return ["dice", kind, state]
            case UploadedFile():
                return ["file", node.name, node.mime_type, node.size, self._blob(node.data, node.data)]
            case bytes():
                return ["bytes", self._blob(node, node)]
            case enum.Flag():
                return ["flag", type(node).__qualname__, self.cell(node.value)]
            case enum.Enum():
                return ["enum", type(node).__qualname__, node.name]
        assert isinstance(node, np.generic)
        return ["scalar", node.dtype.str, node.tobytes()]

    def _buffer(self, buffer: Buffer | None) -> list[Any]:
        assert buffer is not None
        return [self._blob(buffer, buffer.data.data), buffer.phase, buffer.device, buffer.tensors]

    def _blob(self, owner: object, data: Any) -> int:
        if id(owner) not in self._blob_numbers:
            self._blob_numbers[id(owner)] = len(self.blobs)
            self.blobs.append(memoryview(data) if len(data) else memoryview(b""))
        return self._blob_numbers[id(owner)]


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


