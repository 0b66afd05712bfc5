"""Which addresses are free: the first range that fits is taken, and neighbours that are free again are joined."""

from __future__ import annotations

from bisect import bisect


class FreeRanges:
    """Which of these addresses are free; at first all of them.

    The first fit keeps arrays in use together. With the few sizes that video has, they lie within less than twice as many
    addresses as the most bytes that were ever in use at a time (`tests/memory/test_fragmentation.py`).
    """

    def __init__(self, addresses: range) -> None:
        self._free = [(addresses.start, addresses.stop)]  # in order; no two touch

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
