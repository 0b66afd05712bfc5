"""The way between the two processes: words over a socket pair, each with the descriptor that belongs to it.

Each word is four bytes of length and MessagePack. `send` never waits: what the kernel does not take at once lies in a queue,
which is bounded by what the words mean (a client's limits, the room for frames), and a task writes it.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.isolation.ipc_messages import Segment

_encoder = msgspec.msgpack.Encoder()
_CHUNK = 256 * 1024
#: descriptors in one message, at most what Linux takes in one (SCM_MAX_FD)
_MOST_DESCRIPTORS = 253


class Link(Protocol):
    """One end. Not for several threads."""

    def send(self, word: object, descriptor: int | None = None) -> None:
        """Say something; its descriptor is the link's from now on. Nothing happens if the other end is gone."""

    async def hear(self, take: Callable[[Any, int | None], object]) -> None:
        """Give what the other end says to `take`, each word with its descriptor; return when that end is gone."""

    async def run(self) -> None:
        """Task: write what `send` could not; until cancelled."""

    def close(self) -> None:
        """Nothing more, either way."""


class SocketLink:
    """A link over a Unix socket.

    Args:
        sock: connected; the link's from now on.
        words: a union of the words that may come.
    """

    def __init__(self, sock: socket.socket, ipc_messages: Any) -> None:
        self._socket = sock
        self._socket.setblocking(False)
        self._decoder = msgspec.msgpack.Decoder(ipc_messages)
        self._unsent: deque[tuple[memoryview, int | None]] = deque()
        self._wakeup = RepeatedEvent()
        self._gone = False

    def send(self, word: object, descriptor: int | None = None) -> None:
        """See `Link`."""
        body = _encoder.encode(word)
        data = memoryview(len(body).to_bytes(4, "little") + body)
        if self._gone:
            _close(descriptor)
        elif self._unsent:
            self._unsent.append((data, descriptor))
        elif not self._write(data, descriptor):
            self._wakeup.set()

    async def run(self) -> None:
        """See `Link`."""
        while True:
            while not self._unsent:
                await self._wakeup.wait()
            await trio.lowlevel.wait_writable(self._socket)
            while self._unsent and self._write(*self._unsent.popleft(), again=True):
                pass

    async def hear(self, take: Callable[[Any, int | None], object]) -> None:
        """See `Link`."""
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
                    self._gone = True  # not where this is cancelled: the other end hears of that
                    return
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "little")):
                    word = self._decoder.decode(memoryview(buffer)[4:end].tobytes())
                    del buffer[:end]
                    take(word, descriptors.popleft() if isinstance(word, Segment) else None)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def close(self) -> None:
        """See `Link`."""
        self._gone = True
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        for _data, descriptor in self._unsent:
            _close(descriptor)
        self._unsent.clear()

    def _write(self, data: memoryview, descriptor: int | None, *, again: bool = False) -> bool:
        """Whether all of it went; what did not is put back where it was."""
        try:
            if descriptor is None:
                sent = self._socket.send(data)
            else:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
                sent = self._socket.sendmsg([data], rights)
                _close(descriptor)
                descriptor = None
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # the reading end learns it, too, and says so
            self._gone = True
            _close(descriptor)
            return True
        if sent == len(data):
            return True
        rest = (data[sent:], descriptor)
        (self._unsent.appendleft if again else self._unsent.append)(rest)
        return False


class MemoryLink:
    """A link within one process, for tests in virtual time; every word is encoded and decoded all the same."""

    def __init__(self, ipc_messages: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(ipc_messages)
        self._came: deque[tuple[Any, int | None]] = deque()
        self._wakeup = RepeatedEvent()
        self._gone = False
        self.other: MemoryLink

    def send(self, word: object, descriptor: int | None = None) -> None:
        """See `Link`."""
        other = self.other
        if other._gone:
            _close(descriptor)
            return
        other._came.append((other._decoder.decode(_encoder.encode(word)), descriptor))
        other._wakeup.set()

    async def run(self) -> None:
        """See `Link`."""
        await trio.sleep_forever()

    async def hear(self, take: Callable[[Any, int | None], object]) -> None:
        """See `Link`."""
        while True:
            while not self._came:
                if self.other._gone:
                    return
                await self._wakeup.wait()
            take(*self._came.popleft())

    def close(self) -> None:
        """See `Link`."""
        self._gone = True
        for _word, descriptor in self._came:
            _close(descriptor)
        self._came.clear()
        self.other._wakeup.set()


def memory_links(here: Any, there: Any) -> tuple[MemoryLink, MemoryLink]:
    """Two ends; `here` are the words that may come to the first."""
    first, second = MemoryLink(here), MemoryLink(there)
    first.other, second.other = second, first
    return first, second


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
