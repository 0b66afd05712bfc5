"""The memory in which two processes lay frames for each other.

It is a file without a name (`memfd_create`), so it is gone with the last process that maps it. The server's process makes
it before the model's process, which inherits its descriptor, and each maps it once. So no descriptor crosses later, and no
frame costs one: a process that has used up its descriptors still makes and sees frames.

The file is *sparse*: it has more addresses than any frames can need, and takes memory only where a frame was written. What
is no longer in use is punched out of it (`release`). Each process lays its own frames into one half.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from bisect import bisect
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: Where the frames of each process lie, as the number of the half.
SERVER, MODEL = 0, 1
#: A half has addresses for so many times the memory of the machine: free parts between frames in use must not matter.
_SPACIOUS = 4
#: memory is given out in multiples of this many bytes
PAGE: Final = 64 * 1024


class FrameMemory:
    """The memory as this process maps it. Raises OSError if the process has no descriptor or no addresses left for it."""

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, size)
        self._half = size // 2
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def half(self, number: int) -> FreeRanges:
        """The addresses of a half, all of them free."""
        return FreeRanges(number * self._half, (number + 1) * self._half)

    def array(
        self, offset: int, shape: tuple[int, ...], kind: np.dtype[Any], let_go: Callable[[int], object], number: int
    ) -> npt.NDArray[Any]:
        """Make the array that lies at `offset`. `let_go(number)` is called, on any thread, when nothing uses it any more.

        Raises ValueError if it would not lie in the memory.
        """
        owner = (ctypes.c_char * (prod(shape) * kind.itemsize)).from_buffer(self._map, offset)
        weakref.finalize(owner, let_go, number).atexit = False
        flat: npt.NDArray[Any] = np.frombuffer(owner, kind)  # type: ignore[call-overload]
        return flat.reshape(shape)

    def release(self, offset: int, size: int) -> None:
        """Give these pages back to the system. They read as zeros, in both processes."""
        with suppress(OSError):  # some sandboxes cannot: then the pages stay, for the next frame at this address
            self._map.madvise(mmap.MADV_REMOVE, offset, size)

    def close(self) -> None:
        """Let go of the memory. Arrays in it stay valid; no further one can be made."""
        del self._map


@contextmanager
def new_frame_memory(half: int | None = None) -> Generator[tuple[FrameMemory, int]]:
    """Make a memory; yields it, and the descriptor by which another process maps it, which is open in the block.

    Args:
        half: bytes for the frames of one process; None: more than the machine has.

    Raises OSError.
    """
    if half is None:
        half = -(-_SPACIOUS * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // PAGE) * PAGE
    descriptor = os.memfd_create("reactor-frames", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, 2 * half)
        yield FrameMemory(descriptor), descriptor
    finally:
        os.close(descriptor)


class FreeRanges:
    """Which addresses from `start` to `end` are free."""

    def __init__(self, start: int, end: int) -> None:
        self._free = [(start, end)]  # in order; no two touch

    def take(self, size: int) -> int | None:
        """Return where `size` free bytes begin, which are free no longer; the first place that fits. None without one."""
        for index, (start, end) in enumerate(self._free):
            if end - start > size:
                self._free[index] = start + size, end
                return start
            if end - start == size:
                del self._free[index]
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Note that these bytes are free again."""
        end, index = start + size, bisect(self._free, (start, start))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            start = self._free.pop(index := index - 1)[0]
        self._free.insert(index, (start, end))
