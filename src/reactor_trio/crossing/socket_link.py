"""Links between two processes of a server: messages over a socket pair, as `wire` encodes them.

A `FramedSocket` receives; its subclass sends. A `SocketLink` never waits: a queue keeps what the kernel does not take at
once, and a task writes it. The limits on clients and frames, and the windows of `flow_window`, bound that queue. Beyond
`MOST_UNSENT` the other process counts as lost, so the link is cut.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import trio

from reactor_trio.crossing.wire import Wire
from reactor_trio.descriptors import keep_from_children

log = logging.getLogger("reactor_trio.model")

#: Bytes read at once. Python makes room for all of them first; from 128 KiB on each read may need a mapping of its own.
_CHUNK = 64 * 1024
#: bytes that may wait for the other process
MOST_UNSENT = 1024 * 1024 * 1024
#: slices of the time that the other process has to answer
SLICES = 4

#: takes a message, and the number of its session (0: it is about no session)
Handle = Callable[[Any, int], object]


class MessageLink(Protocol):
    """One end of a link. Any thread may send; everything else is for the loop that receives.

    Attributes:
        wire: encodes and decodes its messages.
    """

    wire: Wire

    def send(self, message: object, session: int = 0) -> None:
        """Send a message. A message to an end that is gone is discarded."""

    async def receive(self, handle: Handle) -> None:
        """Give each message of the other end to `handle`; return when the other end is gone, or sends what is no message."""

    def close(self) -> None:
        """Close this end. Nothing is sent or received afterwards."""


class IpcLink(MessageLink, Protocol):
    """One end of a link between the server and a process of the model. Sending waits for nothing."""

    async def run(self) -> None:
        """Task: write what `send` could not write at once. Runs until cancelled."""


class FramedSocket:
    """A Unix socket with messages on it. It belongs to no loop before one receives from it.

    Args:
        sock: a connected socket, which is closed with this object.
        message_types: a union of the messages that the other end may send.
    """

    def __init__(self, sock: socket.socket, message_types: Any) -> None:
        self._socket = keep_from_children(sock)
        self._socket.setblocking(False)
        self.wire = Wire(message_types)
        self._gone = False
        self._received = bytearray()  # of a message whose end has not come
        self._refused = False  # the other end has sent what is no message
        self._lock = threading.Lock()  # for the encoder, and the order of the bytes

    async def receive(self, handle: Handle) -> None:
        """Give each message of the other end to `handle`, in order, until that end is gone or sends what is no message.

        If it is cancelled, the next call goes on where it was. After what is no message, a later call reads nothing: what is
        left in the kernel would be refused, and told, once more.
        """
        buffer = self._received
        while not self._refused:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError:
                data = b""
            if not data:
                self._gone = True  # not if this task is cancelled: the other end must still get what is sent
                return
            buffer += data
            while buffer:
                try:
                    decoded = self.wire.decode(buffer)
                except Exception as error:  # model code has written to the link's descriptor, or over its memory
                    self._refused = True
                    with self._lock:
                        self._cut()
                    log.error("the other process of the model has sent what is no message (%s): it counts as lost", error)
                    return
                if decoded is None:
                    break
                message, session, size = decoded
                del buffer[:size], decoded
                handle(message, session)
                del message

    def close(self) -> None:
        """Close the socket, on the loop that receives. Threads that send notice it, also one that waits for room."""
        trio.lowlevel.notify_closing(self._socket)
        with suppress(OSError):  # the other end is gone
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._gone = True
            self._socket.close()
            self.wire.close()

    def _cut(self) -> None:
        """End the link: both ends receive nothing more, as if the other process were gone. Called with the lock."""
        self._gone = True
        self._socket.shutdown(socket.SHUT_RDWR)

    def _write(self, data: memoryview) -> memoryview:
        """Write what the kernel takes at once, and return the rest. Called with the lock."""
        try:
            return data[self._socket.send(data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:  # `receive` notices it, too, and returns
            self._gone = True
            return data[:0]


class SocketLink(FramedSocket):
    """An `IpcLink` over a socket. Make it on the loop that runs it.

    Attributes:
        unsent: bytes that wait for the other process.
    """

    def __init__(self, sock: socket.socket, message_types: Any) -> None:
        super().__init__(sock, message_types)
        self._unsent, self._to_write = trio.open_memory_channel[memoryview](math.inf)
        self.unsent = 0  # the lock is for this, too
        self._token = trio.lowlevel.current_trio_token()

    def send(self, message: object, session: int = 0) -> None:
        """Send a message from any thread: write it, or queue it for `run`."""
        lost = 0
        with self._lock:
            if self._gone:
                return
            data = memoryview(self.wire.encode(message, session))
            waits = self.unsent > 0
            if not waits:
                data = self._write(data)
            if data:
                self.unsent += len(data)
                self._post(self._queue, data)
                if waits and self.unsent > MOST_UNSENT:
                    lost = self.unsent
                    self._cut()
        if lost:
            log.error("the other process of the model has not read the last %d MiB that were sent to it", lost >> 20)

    async def run(self) -> None:
        """Task: write what is queued, as soon as the kernel takes it."""
        async for rest in self._to_write:
            while rest:
                with self._lock:
                    if self._gone:
                        break
                    before, rest = len(rest), self._write(rest)  # noqa: PLW2901 - what the kernel has not taken
                    self.unsent -= before - len(rest)
                if rest:
                    await trio.lowlevel.wait_writable(self._socket)
        await trio.sleep_forever()

    def close(self) -> None:
        """Close the socket, and drop what is queued."""
        super().close()
        self.unsent = 0
        self._forget()

    def _post(self, function: Callable[..., object], *args: object) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)

    def _queue(self, data: memoryview) -> None:
        if not self._gone:
            self._unsent.send_nowait(data)

    def _cut(self) -> None:
        super()._cut()
        self.unsent = 0
        self._post(self._forget)

    def _forget(self) -> None:
        self._unsent.close()
        with suppress(trio.EndOfChannel):
            while True:
                self._to_write.receive_nowait()


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
