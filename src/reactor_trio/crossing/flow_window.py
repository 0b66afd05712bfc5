"""How much may be under way between two loops: sent, and not yet reported as taken.

The receiver may stand still for as long as it likes, so the sender has a window (`FlowWindow`): beyond it, it waits or
drops. The receiver counts what it takes (`FlowReports`) and reports it now and then, since a report of each item would wake
the sender too often. `FlowLimits` has the numbers of both. A window holds more than a report waits for, or neither would go
on.
"""

from __future__ import annotations

import msgspec


class FlowLimits(msgspec.Struct, frozen=True):
    """The window of one kind of item.

    Attributes:
        items, size: how many items may be under way, and their bytes; the item that reaches the bytes may exceed them.
        reported, reported_size: how many items, or how many bytes, the receiver takes before it reports them.
    """

    items: int
    size: int
    reported: int
    reported_size: int


class FlowWindow:
    """What one sender has under way.

    Attributes:
        items, size: how many items are under way, and their bytes.
        has_room: whether another item may be sent now.
    """

    def __init__(self, limits: FlowLimits) -> None:
        self._limits = limits
        self.items = self.size = 0
        self.has_room = True

    def sent(self, size: int) -> None:
        """Note that an item of so many bytes is under way."""
        self.items += 1
        self.size += size
        self.has_room = self.items < self._limits.items and self.size < self._limits.size

    def taken(self, items: int, size: int) -> None:
        """Note what the receiver has taken."""
        self.items -= items
        self.size -= size
        self.has_room = self.items < self._limits.items and self.size < self._limits.size

    def clear(self) -> None:
        """Forget what is under way: no report comes any more."""
        self.items = self.size = 0
        self.has_room = True


class FlowReports:
    """What one receiver has taken and not yet reported."""

    def __init__(self, limits: FlowLimits) -> None:
        self._limits = limits
        self._items = self._size = 0

    def took(self, size: int) -> tuple[int, int] | None:
        """Note an item of so many bytes. Returns the items and the bytes to be reported now; None: not yet."""
        self._items += 1
        self._size += size
        if self._items < self._limits.reported and self._size < self._limits.reported_size:
            return None
        report = self._items, self._size
        self._items = self._size = 0
        return report
