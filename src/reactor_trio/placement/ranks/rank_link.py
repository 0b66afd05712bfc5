"""The link between rank 0 and another rank.

Model code sends in the middle of a step, on the model thread or a thread that it has started. If the rest of a message went
through another loop, it would be late by the time that Python's threads need to take turns. So a `RankLink` waits for room
itself. It has no loop of its own: `rank_worker` makes it, and from then on the loop that receives from it owns it. On rank 0
that is the model loop (`Leader.run`), on the others the I/O loop (`rank_worker.follow`).
"""

from __future__ import annotations

import select
import socket
from typing import Any

from reactor_trio.crossing.socket_link import FramedSocket


class RankLink(FramedSocket):
    """A `MessageLink` between two ranks. Sending waits for room in the socket."""

    def __init__(self, sock: socket.socket, message_types: Any) -> None:
        super().__init__(sock, message_types)
        self._room = select.poll()
        self._room.register(sock, select.POLLOUT)

    def send(self, message: object, session: int = 0) -> None:
        """Send a message from any thread; return when the kernel has taken it, or one of the ends is gone.

        Other threads wait meanwhile: a message of theirs would come in the middle of this one. So does `close`, which ends
        the wait first: the poll must not look at a descriptor that is free for another file.
        """
        with self._lock:
            if self._gone:
                return
            data = memoryview(self.wire.encode(message, session))
            while data := self._write(data):
                self._room.poll()
