"""A world on its way between two processes of one server: packed as in a file, without digests, origin and signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from reactor_trio.worlds.file_header import HEAD_BYTES, MAGIC, NOWHERE, damaged, decode_header
from reactor_trio.worlds.nodes import World
from reactor_trio.worlds.packing import pack_header
from reactor_trio.worlds.unpacking import world_of

#: bytes of the header's length
_LENGTH: Final = HEAD_BYTES - len(MAGIC)


def pack_unsigned(world: World) -> list[memoryview]:
    """Return the parts of what `unpack_unsigned` takes, views of the world's memory. Raises CommandError `too_big`."""
    header, blobs = pack_header(world, NOWHERE, b"", _without_digests)
    return [memoryview(header), *(blob for blob in blobs if len(blob))]


def unpack_unsigned(data: np.ndarray[Any, np.dtype[np.uint8]], classes: Mapping[str, type]) -> World:
    """Make the world that another process has packed; its arrays lie in `data`.

    Each node is checked, as in a file: model code may have written over the memory of its process. Raises CommandError, as
    `read_world`.
    """
    at = _LENGTH + int.from_bytes(data[:_LENGTH].tobytes(), "little")
    header = decode_header(data[_LENGTH:at].data)
    blobs = []
    for blob in header.blobs:
        blobs.append(data[at : at + max(blob.size, 0)])
        at += max(blob.size, 0)
    if at != len(data):
        raise damaged(f"it has {len(data)} bytes instead of {at}")
    if header.others > 0:  # the parts of other ranks lie in `data` too, and go to them; what stays must not keep them
        own = len(blobs) - header.others
        blobs[:own] = [blob.copy() for blob in blobs[:own]]
    return world_of(header, blobs, classes)


def _without_digests(_digest: object, chunks: Iterable[memoryview]) -> Iterable[bytes]:
    return (b"" for _ in chunks)
