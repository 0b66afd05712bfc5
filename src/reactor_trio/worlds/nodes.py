"""A captured world: values copied out of a model, as a tree of nodes.

A node stands for one object. If two places of the world share an object, they share its node, so identity is kept: also
cycles, which a list, a dict or an instance may have. What never changes (None, bool, int, float, str, bytes, enum members,
NumPy scalars, `UploadedFile`) stands in the tree as itself.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

#: how deep values may lie in each other
DEEPEST = 64
#: how many values a world may have, without the numbers in arrays
MOST_VALUES = 1_000_000
#: bytes that a value needs beside its content, in round numbers
VALUE_BYTES = 64
#: shorter bytes count as part of the tree, longer ones on their own
SHORT = 1024

#: what stands in the tree as itself, or a node
Node: TypeAlias = Any
#: the containers that are rebuilt of their items alone
ItemsKind: TypeAlias = Literal["list", "deque", "tuple", "set", "frozenset"]


class Items(msgspec.Struct, eq=False):
    """A list, deque, tuple, set or frozenset; `maxlen` is that of a deque."""

    kind: ItemsKind
    items: list[Node]
    maxlen: int | None = None


class Pairs(msgspec.Struct, eq=False):
    """A dict."""

    keys: list[Node]
    values: list[Node]


class Instance(msgspec.Struct, eq=False):
    """An instance of a class of `types=`: its attributes, in their order."""

    cls: type
    names: list[str]
    values: list[Node]


class Buffer(msgspec.Struct, eq=False):
    """Memory of arrays and tensors, copied to the host; it is never written again.

    Moments whose arrays did not change share it. Several arrays lie in one buffer if their memory overlaps.

    Attributes:
        data: the bytes.
        phase: the address of the original, modulo 64; a copy gets the same alignment.
        device: where it was, `cpu` or as `cuda:0`.
        tensors: whether tensors lie in it, so that torch allocates its copies.
    """

    data: np.ndarray[Any, np.dtype[np.uint8]]
    phase: int
    device: str
    tensors: bool


class Array(msgspec.Struct, eq=False):
    """A NumPy array: `strides` and `offset` are in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool
    offset: int = 0
    buffer: Buffer | None = None


class Tensor(msgspec.Struct, eq=False):
    """A torch tensor: `strides` are in elements, `offset` is in bytes; `dtype` is its name without `torch.`."""

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    offset: int = 0
    buffer: Buffer | None = None


class Dice(msgspec.Struct, eq=False):
    """A generator of random numbers: its kind, and its state as bytes (`generators.py`)."""

    kind: str
    state: bytes


class World(msgspec.Struct, eq=False):
    """What a model needs to go on with a session exactly as it was after one step. Nobody changes it.

    Attributes:
        step: the number that the session's step had.
        steps: how many steps the world had made, which go back with a rewind.
        age: seconds of the world's own time.
        fps: the rate of `set_fps`, None if it is the declared one.
        values: path -> node. The fields of the state have the paths `state.NAME`.
        saved: the node of what `@saving` returned.
        generators: the process's own generators, if no other session uses them: kind -> state.
        blobs: the memory of its arrays, and its long bytes, each once: what moments may share, by `id`.
        small_bytes: the size of all else.
        number: of a model on several ranks, which each keep their part of it: what they call it; 0: they have none of it.
        elsewhere: bytes that the largest part on another rank has beyond this one, which counts (`LedWorld`).
        others: the parts of the other ranks, packed (`unsigned`), if they are here.
    """

    step: int
    steps: int
    age: float
    fps: float | None
    values: dict[str, Node]
    saved: Node
    generators: dict[str, bytes]
    blobs: dict[int, Buffer | bytes]
    small_bytes: int
    number: int = 0
    elsewhere: int = 0
    others: tuple[npt.NDArray[np.uint8], ...] = ()

    @property
    def size(self) -> int:
        """Bytes in memory, shared or not."""
        blobs = sum(blob_bytes(blob) for blob in self.blobs.values())
        return self.small_bytes + blobs + self.elsewhere + sum(map(len, self.others))


def blob_bytes(blob: Buffer | bytes) -> int:
    """How many bytes a blob has."""
    return len(blob) if isinstance(blob, bytes) else int(blob.data.nbytes)
