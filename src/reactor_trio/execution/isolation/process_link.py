"""The link between two processes of a server: IPC messages over a socket pair, each with the file descriptor it needs.

On the wire, a message is four bytes of length, then MessagePack. `send` never waits: a queue keeps what the kernel does not
take at once, and a task writes it. The limits on clients and frames bound that queue.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.descriptors import keep_from_children
from reactor_trio.execution.isolation.ipc_messages import FrameSegment
from reactor_trio.interface.files import UploadedFile

#: Bytes read at once. Python makes room for all of them first; from 128 KiB on each read may need a mapping of its own.
_CHUNK = 64 * 1024
#: descriptors in one message; Linux takes no more (SCM_MAX_FD)
_MOST_DESCRIPTORS = 253
#: slices of the time that the other process has to answer
SLICES = 4

def _pack(value: object) -> object:
    if isinstance(value, UploadedFile):
        return value.name, value.mime_type, value.size, value.data
    raise NotImplementedError


encoder = msgspec.msgpack.Encoder(enc_hook=_pack)

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
        self._socket = keep_from_children(sock)
        self._socket.setblocking(False)
        self._decoder = decoder_of(message_types)
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


def decoder_of(message_types: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of messages of this union, the counterpart of `encoder`."""
    return msgspec.msgpack.Decoder(message_types, dec_hook=lambda _uploaded_file, packed: UploadedFile(*packed))


async def answered_within(seconds: float, answered: Callable[[], Awaitable[object]]) -> bool:
    """Wait for an answer of the other process, and return whether it came within `seconds` in which this process ran.

    If this process is stopped, or its machine is suspended, the time may be over when it continues, although the answer is
    there and only unread. So the time consists of slices, and a standstill of any length costs one slice.

    `answered` may be called and cancelled several times, so it must only wait.
    """
    for _ in range(SLICES):
        with trio.move_on_after(seconds / SLICES):
            await answered()
            return True
    return False


class RankLink(SocketLink):
    """A link between two ranks: any thread may send on it. Sending waits for room in the socket.

    Model code sends in the middle of a step, on the model thread or a thread that it has started. If the message went
    through another loop first, it would be late by the time that Python's threads need to take turns. A rank link carries no
    file descriptors.
    """

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


def on_wire(message: object) -> memoryview:
    """Encode a message, with its length in front."""
    body = encoder.encode(message)
    return memoryview(len(body).to_bytes(4, "little") + body)


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
