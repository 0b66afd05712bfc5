"""A link between two "processes" of one loop, for a model's process in virtual time."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from typing import Any

import trio

from reactor_trio.crossing.socket_link import Handle
from reactor_trio.crossing.wire import Wire
from reactor_trio.placement.ranks.rank_messages import LeaderFinished


class MemoryIpcLink:
    """A link within one process, for tests in virtual time. Messages are encoded and decoded here, too.

    Make it on the loop that runs it.
    """

    other: MemoryIpcLink
    #: messages with their sessions, to the other end and from it
    _out: trio.MemorySendChannel[tuple[Any, int]]
    _came: trio.MemoryReceiveChannel[tuple[Any, int]]

    def __init__(self, message_types: Any) -> None:
        self.wire = Wire(message_types)
        self._lock = threading.Lock()
        self._token, self._thread = trio.lowlevel.current_trio_token(), threading.get_ident()
        #: messages of other threads on their way to the loop; those of the loop stay behind them
        self._posted = 0

    def send(self, message: object, session: int = 0) -> None:
        """See `IpcLink`."""
        with self._lock:
            channel = self._out.statistics()
            if not channel.open_send_channels or not channel.open_receive_channels:
                return
            data = bytearray(self.wire.encode(message, session))
            while (decoded := self.other.wire.decode(data)) is not None:
                if self._posted or threading.get_ident() != self._thread:
                    self._posted += 1
                    self._token.run_sync_soon(self._pass_on, decoded[:2])
                else:
                    self._out.send_nowait(decoded[:2])
                del data[: decoded[2]]

    async def run(self) -> None:
        """See `IpcLink`."""
        await trio.sleep_forever()

    async def receive(self, handle: Handle) -> None:
        """See `IpcLink`."""
        with suppress(trio.EndOfChannel, trio.ClosedResourceError):
            while True:
                handle(*await self._came.receive())
                with suppress(trio.WouldBlock):  # and what came with it, as from a socket
                    while True:
                        handle(*self._came.receive_nowait())

    def close(self) -> None:
        """See `IpcLink`."""
        with self._lock:
            self._out.close()
            self._came.close()
            self.wire.close()

    def _pass_on(self, sent: tuple[Any, int]) -> None:
        with self._lock, suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # an end is closed
            self._posted -= 1
            self._out.send_nowait(sent)


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
    first._out, second._came = trio.open_memory_channel[tuple[Any, int]](math.inf)
    second._out, first._came = trio.open_memory_channel[tuple[Any, int]](math.inf)
    return first, second
