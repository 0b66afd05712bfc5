"""The arrays that one process makes in its half of a memory.

Each array lies in a *slot*. A slot is free when this process has let go of the array, and each other process as often as the
array was shown to it. Of free slots a few keep their pages for arrays of about their size, since a page that is taken again
must be cleared. Of the others the pages are given back at once, and their addresses are free for arrays of any size.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reactor_trio.memory.free_ranges import FreeRanges
from reactor_trio.memory.shared_mapping import PAGE, SharedMapping

#: how many free slots keep their pages, and how many bytes of them
MOST_KEPT, MOST_KEPT_BYTES = 16, 256 * 1024 * 1024


@dataclass(eq=False, slots=True)
class _Slot:
    number: int
    start: int
    size: int
    #: one for the array here, and one for each time that it was shown
    uses: int = 0


class SharedArrays:
    """The slots in a half of `memory`. Any thread may call each method.

    Attributes:
        taken: bytes of the slots that are in use or keep their pages; never more than the bound of the memory.
    """

    def __init__(self, memory: SharedMapping, half: int) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._ranges = FreeRanges(memory.half(half))
        self._bound = memory.bound
        self._live: dict[int, _Slot] = {}
        self._kept: list[_Slot] = []
        self._kept_bytes = 0
        self._released: deque[int] = deque()  # finalizers run anywhere, also while the lock is held
        self._numbers = 0
        self.taken = 0

    def empty(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """Return an array to be filled; None if there is no room for it."""
        size = prod(shape) * kind.itemsize
        with self._lock:
            self._collect()
            if (slot := self._kept_slot(size) or self._new_slot(size)) is None:
                return None
            slot.uses = 1
            self._live[slot.number] = slot
            return self._memory.array(slot.start, shape, kind, self._released.append, slot.number)

    def show(self, array: npt.NDArray[Any]) -> tuple[int, int] | None:
        """Number of the slot that has the array, with one more use of it, and the offset in the memory; None if none has."""
        if not array.flags.c_contiguous:
            return None
        offset = array.__array_interface__["data"][0] - self._memory.address
        with self._lock:
            for slot in reversed(self._live.values()):  # mostly the newest
                if slot.start <= offset < slot.start + slot.size:
                    slot.uses += 1
                    return slot.number, offset
        return None

    def release(self, numbers: Iterable[int]) -> None:
        """Other processes no longer use these slots; a number is there once for each time that the array was shown."""
        self._released.extend(numbers)
        with self._lock:
            self._collect()

    def close(self) -> None:
        """Give out no more memory. Arrays that are in use stay valid."""
        with self._lock:
            self._bound = 0
            self._live.clear()
            self._kept.clear()

    # ---- inside, with the lock ----------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Take back the slots that nothing uses any more. Beyond the limits, release the pages of the oldest ones."""
        while self._released:
            if (slot := self._live.get(self._released.popleft())) is not None:
                slot.uses -= 1
                if not slot.uses:
                    self._kept.append(self._live.pop(slot.number))
                    self._kept_bytes += slot.size
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            self._release_oldest()

    def _kept_slot(self, size: int) -> _Slot | None:
        """A slot that keeps its pages, and is not much too large; of several the newest, whose pages the caches may have."""
        fitting = [slot for slot in self._kept if size <= slot.size <= max(2 * size, PAGE)]
        if not fitting:
            return None
        best = min(reversed(fitting), key=lambda slot: slot.size)
        self._kept.remove(best)
        self._kept_bytes -= best.size
        return best

    def _new_slot(self, size: int) -> _Slot | None:
        whole = -(-max(size, 1) // PAGE) * PAGE
        while self.taken + whole > self._bound or (start := self._ranges.take(whole)) is None:
            if not self._kept:
                return None
            self._release_oldest()
        self.taken += whole
        self._numbers += 1
        return _Slot(self._numbers, start, whole)

    def _release_oldest(self) -> None:
        slot = self._kept.pop(0)
        self._kept_bytes -= slot.size
        self.taken -= slot.size
        self._memory.release(slot.start, slot.size)
        self._ranges.give(slot.start, slot.size)
