"""Memory that several processes map.

It is a file without a name (`memfd_create`), so it is gone with the last process that maps it, however that ends. One
process makes it before it starts the others, which inherit its descriptor, and each maps it once. So no descriptor crosses
later, and nothing in the memory costs one: a process that has used up its descriptors still makes and sees arrays.

The file is *sparse*: it has more addresses than its arrays can need, and takes memory only where something was written. What
is no longer in use is punched out of it (`release`). It has two halves. Each has one process that writes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: memory is given out in multiples of this many bytes
PAGE: Final = 64 * 1024
#: A half has addresses for so many times its bound: free parts between arrays in use must not matter.
_SPACIOUS: Final = 4


class SharedMapping:
    """The memory as this process maps it. Raises OSError if the process has no descriptor or no addresses left for it.

    Args:
        descriptor: that of the file. The caller closes it, at any time.

    Attributes:
        bound: the most bytes that may be in use in a half.
        address: where the memory begins in this process.
    """

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, size)
        # A core dump reads each address, and a read of a hole takes memory: it would take more than the machine has.
        with suppress(OSError):  # some sandboxes make no core dumps
            self._map.madvise(mmap.MADV_DONTDUMP)
        self._half = size // 2
        self.bound = self._half // _SPACIOUS
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def half(self, number: int) -> range:
        """The addresses of half 0 or 1, counted from the beginning of the memory."""
        return range(number * self._half, (number + 1) * self._half)

    def array(
        self, offset: int, shape: tuple[int, ...], kind: np.dtype[Any], release: Callable[[int], object], number: int
    ) -> npt.NDArray[Any]:
        """Make the array that lies at `offset`. `release(number)` is called, on any thread, when nothing uses it any more.

        Raises ValueError if it would not lie in the memory.
        """
        if kind.hasobject or not 0 <= offset <= 2 * self._half - prod(shape) * kind.itemsize:
            raise ValueError(f"{shape} of {kind} at {offset} do not lie in the memory")
        array: npt.NDArray[Any] = np.ndarray(shape, kind, self._map, offset)
        weakref.finalize(array, release, number).atexit = False  # each view of an array holds the array
        return array

    def write(self, offset: int, data: memoryview) -> None:
        """Copy bytes into the memory."""
        self._map[offset : offset + data.nbytes] = data

    def read(self, offset: int, size: int) -> bytearray:
        """Copy bytes out of the memory."""
        return bytearray(memoryview(self._map)[offset : offset + size])

    def release(self, offset: int, size: int) -> None:
        """Give these pages back to the system. They read as zeros, in each process."""
        with suppress(OSError):  # some sandboxes cannot: then the pages stay, for the next array at this address
            self._map.madvise(mmap.MADV_REMOVE, offset, size)

    def close(self) -> None:
        """Let go of the memory. Arrays in it stay valid; no further one can be made."""
        del self._map


def new_shared_file(name: str, bound: int | None = None) -> int:
    """Make the file of a memory; returns its descriptor, which the caller closes.

    Args:
        name: what `/proc/PID/maps` shows.
        bound: the most bytes that may be in use in each half; None: half of the machine's memory.

    Raises OSError.
    """
    if bound is None:
        bound = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 // PAGE * PAGE
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, 2 * _SPACIOUS * bound)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def new_shared_mapping(name: str, bound: int | None = None) -> Generator[tuple[SharedMapping, int]]:
    """Make a memory; yields it, and the descriptor by which another process maps it, which is open in the block.

    For arguments and errors see `new_shared_file`.
    """
    descriptor = new_shared_file(name, bound)
    try:
        yield SharedMapping(descriptor), descriptor
    finally:
        os.close(descriptor)
