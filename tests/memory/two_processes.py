"""A memory as two processes map it, both ends in the process of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from reactor_trio.memory.shared_arrays import SharedArrays
from reactor_trio.memory.shared_mapping import SharedMapping, new_shared_mapping

Bytes = npt.NDArray[np.uint8]


class TwoProcesses:
    """One makes arrays (`arrays`), the other sees them (`see`); what the other no longer uses waits in `unused`."""

    def __init__(self, mine: SharedMapping, theirs: SharedMapping, file: int) -> None:
        self.arrays = SharedArrays(mine, 1)
        self.bound = mine.bound
        self.unused: list[int] = []
        self._mine, self._theirs, self._file = mine, theirs, file

    def make(self, size: int, value: int = 0) -> Bytes | None:
        """An array full of `value`; None if there is no room."""
        made = self.arrays.empty((size,), np.dtype(np.uint8))
        if made is not None and value:
            made[...] = value
        return made

    def see(self, array: Bytes) -> Bytes:
        shown = self.arrays.show(array)
        assert shown is not None
        number, offset = shown
        return self._theirs.array(offset, array.shape, array.dtype, self.unused.append, number)

    def deliver(self) -> None:
        """Tell the process that makes arrays what the other no longer uses."""
        unused, self.unused[:] = self.unused[:], []
        self.arrays.release(unused)

    def in_memory(self) -> int:
        """How many bytes of the memory there are, for those that were written and not given back."""
        return os.fstat(self._file).st_blocks * 512

    def close(self) -> None:
        self.arrays.close()
        self._mine.close()
        self._theirs.close()


@contextmanager
def two_processes(bound: int) -> Iterator[TwoProcesses]:
    with new_shared_mapping("reactor-test", bound) as (mine, descriptor):
        ends = TwoProcesses(mine, SharedMapping(descriptor), descriptor)
        try:
            yield ends
        finally:
            ends.close()


def place_of(array: Bytes) -> range:
    """The addresses in which the array lies."""
    start = array.__array_interface__["data"][0]
    return range(start, start + array.nbytes)
