"""Values on their way between processes: arrays in shared memory, everything else pickled.

Pickle's protocol 5 leaves the bytes of arrays out of the stream. They are written into a *slot*, memory without a name
(`memfd_create`) that both processes map; it is gone with the last of them, so nothing is left behind whichever dies. The
process that writes owns the slot; it sends a larger one where a value does not fit. The reader copies, so a slot is free
again when its message is answered. A tensor in the host's memory crosses as the array of its bytes, one on a device is
copied to the host first.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle  # nosec B403 - between processes of one group, over pipes that no other process has
import sys
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from reactor_trio.errors import ReactorError

_PAGE = mmap.PAGESIZE


class SharedSlotAllocationFailed(ReactorError, MemoryError):
    """There is no shared memory for the arrays of a call. The text has its size in bytes."""


class SharedSlot:
    """Memory for the arrays of one message at a time, seen from the process that writes."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._descriptor = -1

    def write(self, buffers: list[pickle.PickleBuffer]) -> tuple[list[int], int | None]:
        """Copy the buffers into the slot. Returns their sizes, and the new descriptor if readers must map a larger slot.

        Raises SharedSlotAllocationFailed; the slot is then as it was.
        """
        views = [buffer.raw() for buffer in buffers]
        sizes = [view.nbytes for view in views]
        needed, grown = sum(sizes), None
        if needed and (self._map is None or len(self._map) < needed):
            grown = self._grow(needed)
        place = 0
        for view in views:
            assert self._map is not None or not view.nbytes
            if self._map is not None:
                self._map[place : place + view.nbytes] = view
            place += view.nbytes
        return sizes, grown

    def close(self) -> None:
        """Let go of the memory. Readers that have mapped it keep it."""
        if self._map is not None:
            self._map.close()
            os.close(self._descriptor)
            self._map = None

    def _grow(self, needed: int) -> int:
        size = -(-needed // _PAGE) * _PAGE
        descriptor = -1
        try:
            descriptor = os.memfd_create("reactor-slot", os.MFD_CLOEXEC)
            os.posix_fallocate(descriptor, 0, size)  # here, not by a SIGBUS at the first write
            grown = mmap.mmap(descriptor, size)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise SharedSlotAllocationFailed(f"no shared memory for {needed} bytes of arrays: {error.strerror}") from error
        self.close()
        self._map, self._descriptor = grown, descriptor
        return descriptor


class SlotView:
    """A slot seen from a process that reads."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def receive(self, connection: Connection) -> None:
        """Map the slot whose descriptor comes next on `connection`."""
        descriptor = reduction.recv_handle(connection)
        try:
            self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def read(self, sizes: list[int]) -> list[bytearray]:
        """Copy buffers of these sizes out of the slot."""
        buffers, place = [], 0
        for size in sizes:
            buffers.append(bytearray(self._map[place : place + size]) if self._map is not None else bytearray())
            place += size
        return buffers


def encode(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Pickle `value`; returns the stream, and the buffers of its arrays."""
    stream, buffers = io.BytesIO(), []  # type: io.BytesIO, list[pickle.PickleBuffer]
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    return stream.getvalue(), buffers


def decode(stream: bytes, buffers: list[bytearray]) -> Any:
    """Make the value again, with arrays that own `buffers`."""
    return pickle.loads(stream, buffers=buffers)  # from a process of this group  # nosec B301


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return NotImplemented
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return _tensor, (flat, str(value.dtype).removeprefix("torch."), tuple(value.shape))


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.from_numpy(data).view(getattr(torch, dtype)).reshape(shape)
