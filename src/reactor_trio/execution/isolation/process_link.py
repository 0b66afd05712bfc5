"""The link between two processes of a server: IPC messages over a socket pair, each with the file descriptor it needs.

On the wire, a message is four bytes of length, then MessagePack. `send` never waits: a queue keeps what the kernel does not
take at once, and a task writes it. The limits on clients and frames bound that queue.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.isolation.ipc_messages import FrameSegment

_encoder = msgspec.msgpack.Encoder()
_CHUNK = 256 * 1024
#: descriptors in one message; Linux takes no more (SCM_MAX_FD)
_MOST_DESCRIPTORS = 253

#: handles a message and its file descriptor, which the handler must close
Handle = Callable[[Any, int | None], object]


class IpcLink(Protocol):
    """One end of a link. Use it in one thread."""

    def send(self, message: object, descriptor: int | None = None) -> None:
        """Send a message. The link closes the descriptor. A message to an end that is gone is discarded."""

    async def receive(self, handle: Handle) -> None:
        """Give each message of the other end to `handle`, with its descriptor; return when the other end is gone."""

    async def run(self) -> None:
        """Task: write what `send` could not write at once. Runs until cancelled."""

    def close(self) -> None:
        """Close this end. Nothing is sent or received afterwards."""


class SocketLink:
    """A link over a Unix socket.

    Args:
        sock: a connected socket; the link closes it.
        message_types: a union of the messages that the other end may send.
    """

    def __init__(self, sock: socket.socket, message_types: Any) -> None:
        self._socket = sock
        self._socket.setblocking(False)
        self._decoder = msgspec.msgpack.Decoder(message_types)
        self._unsent: deque[tuple[memoryview, int | None]] = deque()
        self._wakeup = RepeatedEvent()
        self._gone = False

    def send(self, message: object, descriptor: int | None = None) -> None:
        """See `IpcLink`."""
        if self._gone:
            _close(descriptor)
        elif self._unsent:
            self._unsent.append((on_wire(message), descriptor))
        elif not self._write(on_wire(message), descriptor):
            self._wakeup.set()

    async def run(self) -> None:
        """See `IpcLink`."""
        while True:
            while not self._unsent:
                await self._wakeup.wait()
            await trio.lowlevel.wait_writable(self._socket)
            while self._unsent and self._write(*self._unsent.popleft()):
                pass

    async def receive(self, handle: Handle) -> None:
        """See `IpcLink`."""
        buffer, descriptors = bytearray(), deque[int]()
        try:
            while True:
                await trio.lowlevel.wait_readable(self._socket)
                try:
                    data, came, _flags, _address = socket.recv_fds(self._socket, _CHUNK, _MOST_DESCRIPTORS)
                except (BlockingIOError, InterruptedError):
                    continue
                except OSError:
                    data, came = b"", []
                descriptors.extend(came)
                if not data:
                    self._gone = True  # not if this task is cancelled: the other end must still get what is sent
                    return
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "little")):
                    message = self._decoder.decode(memoryview(buffer)[4:end].tobytes())
                    del buffer[:end]
                    handle(message, descriptors.popleft() if isinstance(message, FrameSegment) else None)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def close(self) -> None:
        """See `IpcLink`."""
        self._gone = True
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        for _data, descriptor in self._unsent:
            _close(descriptor)
        self._unsent.clear()

    def _write(self, data: memoryview, descriptor: int | None) -> bool:
        """Write, and return whether all of it went. The rest becomes the first of the queue."""
        try:
            if descriptor is None:
                sent = self._socket.send(data)
            else:
                sent = socket.send_fds(self._socket, [data], [descriptor])
                os.close(descriptor)
                descriptor = None
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # `receive` notices it, too, and returns
            self._gone = True
            _close(descriptor)
            return True
        if sent < len(data):
            self._unsent.appendleft((data[sent:], descriptor))
        return sent == len(data)


def on_wire(message: object) -> memoryview:
    """Encode a message, with its length in front."""
    body = _encoder.encode(message)
    return memoryview(len(body).to_bytes(4, "little") + body)


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
