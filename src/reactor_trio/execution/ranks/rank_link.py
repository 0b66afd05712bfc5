"""The way between two ranks: a socket link whose words may be said on any thread, and wait for room.

Model code says them, in the middle of a step, on the model thread or one that it has started. A word that is handed to
another loop first would be late by as long as Python's threads need to take turns.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import Any

import msgspec
import trio

from reactor_trio.execution.isolation.process_link import SocketLink

_encoder = msgspec.msgpack.Encoder()


class RankLink(SocketLink):
    """See `SocketLink`; it carries no descriptors."""

    def __init__(self, sock: socket.socket, ipc_messages: Any) -> None:
        super().__init__(sock, ipc_messages)
        self._lock = threading.Lock()
        self._room = select.poll()
        self._room.register(sock, select.POLLOUT)

    def send(self, word: object, descriptor: int | None = None) -> None:
        """Any thread: say something, and wait until the kernel has taken it. Nothing happens if the other end is gone."""
        if descriptor is not None:
            os.close(descriptor)
            raise ValueError("no descriptor goes between ranks")
        body = _encoder.encode(word)
        data = memoryview(len(body).to_bytes(4, "little") + body)
        with self._lock:
            while data and not self._gone:
                try:
                    data = data[self._socket.send(data) :]
                except (BlockingIOError, InterruptedError):
                    self._room.poll()
                except OSError:  # the reading end learns it, too, and says so
                    self._gone = True

    async def run(self) -> None:
        """Nothing is left to write."""
        await trio.sleep_forever()
