"""Values on their way between processes: arrays in shared memory, everything else pickled.

Pickle's protocol 5 leaves the bytes of arrays out of the stream. They are written into memory that all processes of the
group map (`memory.shared_mapping`): those of a call into one half, those of rank 0's result into the other. The reader
copies, so a half is free again when its message is answered. A tensor in the host's memory crosses as the array of its
bytes, one on a device is copied to the host first.
"""

from __future__ import annotations

import io
import os
import pickle  # nosec B403 - between processes of one group, over pipes that no other process has
import sys
import weakref
from multiprocessing import reduction
from typing import Any

from reactor_trio.errors import ReactorError
from reactor_trio.memory.shared_mapping import PAGE, SharedMapping, new_shared_file

#: the halves of the memory
CALLS, RESULTS = 0, 1


class SharedSlotAllocationFailed(ReactorError, MemoryError):
    """There is no shared memory for the arrays of a call. The text has its size in bytes."""


class Inherited(int):
    """A descriptor. As an argument of a process that `multiprocessing` starts, it becomes the one which that inherits."""

    def __reduce__(self) -> Any:
        return _detached, (reduction.DupFd(int(self)),)


def _detached(inherited: Any) -> Inherited:
    return Inherited(inherited.detach())


class PayloadMemory:
    """The memory of a group, seen from a process that writes into one half and reads the other.

    Args:
        descriptor: that of the memory; None makes a new one. It is closed by `close`, or with this object.
        half: where this process writes.

    Raises OSError if there is no descriptor, or no room for the addresses.
    """

    def __init__(self, descriptor: Inherited | None, half: int) -> None:
        self.descriptor = Inherited(new_shared_file("reactor-slots")) if descriptor is None else descriptor
        self._close = weakref.finalize(self, os.close, self.descriptor)
        self._close.atexit = False
        os.set_inheritable(self.descriptor, False)
        self._memory = SharedMapping(self.descriptor)
        self._mine, self._theirs = self._memory.half(half), self._memory.half(1 - half)
        self._reserved = 0

    def write(self, buffers: list[pickle.PickleBuffer]) -> list[int]:
        """Copy the buffers into the memory, in place of the last ones; return their sizes.

        Raises SharedSlotAllocationFailed; the memory is then as it was.
        """
        views = [buffer.raw() for buffer in buffers]
        sizes = [view.nbytes for view in views]
        self._reserve(sum(sizes))
        place = self._mine.start
        for view in views:
            self._memory.write(place, view)
            place += view.nbytes
        return sizes

    def read(self, sizes: list[int]) -> list[bytearray]:
        """Copy buffers of these sizes out of the other half."""
        buffers, place = [], self._theirs.start
        for size in sizes:
            buffers.append(self._memory.read(place, size))
            place += size
        return buffers

    def close(self) -> None:
        """Let go of the memory. A second call does nothing."""
        if self._close.alive:
            self._memory.close()
            self._close()

    def _reserve(self, needed: int) -> None:
        """Take memory for so many bytes, here, so that the write does not end this process with SIGBUS."""
        if needed <= self._reserved:
            return
        if needed > self._memory.bound:
            raise SharedSlotAllocationFailed(f"no shared memory for {needed} bytes of arrays: at most {self._memory.bound}")
        whole = -(-needed // PAGE) * PAGE
        try:
            os.posix_fallocate(self.descriptor, self._mine.start + self._reserved, whole - self._reserved)
        except OSError as error:
            raise SharedSlotAllocationFailed(f"no shared memory for {needed} bytes of arrays: {error.strerror}") from error
        self._reserved = whole


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
