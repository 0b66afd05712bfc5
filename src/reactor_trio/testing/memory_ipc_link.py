"""A link between two "processes" of one loop, for a model's process in virtual time."""

from __future__ import annotations

from collections import deque
from typing import Any

import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.socket_link import Handle
from reactor_trio.crossing.wire import Wire
from reactor_trio.placement.ranks.rank_messages import LeaderFinished


class MemoryIpcLink:
    """A link within one process, for tests in virtual time. Messages are encoded and decoded here, too."""

    other: MemoryIpcLink

    def __init__(self, message_types: Any) -> None:
        self.wire = Wire(message_types)
        self._came: deque[tuple[Any, int]] = deque()
        self._wakeup = RepeatedEvent()
        self._gone = False

    def send(self, message: object, session: int = 0) -> None:
        """See `IpcLink`."""
        other = self.other
        if self._gone or other._gone:
            return
        decoded = other.wire.decode(bytearray(self.wire.encode(message, session)))
        assert decoded is not None
        other._came.append(decoded[:2])
        other._wakeup.set()

    async def run(self) -> None:
        """See `IpcLink`."""
        await trio.sleep_forever()

    async def receive(self, handle: Handle) -> None:
        """See `IpcLink`."""
        while self._came or not self.other._gone:
            while self._came:
                handle(*self._came.popleft())
            if not self.other._gone:
                await self._wakeup.wait()

    def close(self) -> None:
        """See `IpcLink`."""
        self._gone = True
        self.wire.close()
        self._came.clear()
        self.other._wakeup.set()


class LeaderLink(MemoryIpcLink):
    """The leader's end of a link to a rank in the same loop: it holds the messages of a call until rank 0 has made it."""

    def __init__(self, message_types: Any) -> None:
        super().__init__(message_types)
        self._held: list[object] = []

    def send(self, message: object, session: int = 0) -> None:
        """See `IpcLink`."""
        self._held.append(message)
        if isinstance(message, LeaderFinished):
            held, self._held = self._held, []
            for waiting in held:
                super().send(waiting)


def memory_links(
    here: Any, there: Any, first_type: type[MemoryIpcLink] = MemoryIpcLink
) -> tuple[MemoryIpcLink, MemoryIpcLink]:
    """Make both ends of a link; `here` is a union of the messages that may come to the first, `there` to the second."""
    first, second = first_type(here), MemoryIpcLink(there)
    first.other, second.other = second, first
    return first, second
