"""The link between two ranks: a socket link that any thread may send on. Sending waits for room in the socket.

Model code sends in the middle of a step, on the model thread or a thread that it has started. If the message went through
another loop first, it would be late by the time that Python's threads need to take turns.
"""

from __future__ import annotations

import select
import socket
import threading
from typing import Any

import trio

from reactor_trio.execution.isolation.process_link import SocketLink, on_wire


class RankLink(SocketLink):
    """See `SocketLink`; it carries no file descriptors."""

    def __init__(self, sock: socket.socket, message_types: Any) -> None:
        super().__init__(sock, message_types)
        self._lock = threading.Lock()
        self._room = select.poll()
        self._room.register(sock, select.POLLOUT)

    def send(self, message: object, descriptor: int | None = None) -> None:
        """Send a message from any thread; return when the kernel has taken it, or the other end is gone."""
        assert descriptor is None
        data = on_wire(message)
        with self._lock:
            while data and not self._gone:
                try:
                    data = data[self._socket.send(data) :]
                except (BlockingIOError, InterruptedError):
                    self._room.poll()
                except OSError:  # `receive` notices it, too, and returns
                    self._gone = True

    async def run(self) -> None:
        """See `IpcLink`. There is nothing left to write."""
        await trio.sleep_forever()
