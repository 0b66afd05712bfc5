"""Frames in memory that two processes map.

`SharedFrames` belongs to the process that makes frames. It gives out memory before a frame is filled, so the one copy of
each accepted yield goes right into shared memory. The memory lies in *segments*, one for each accepted array. A segment has
no name (`memfd_create`), so it is gone with its last process. The `FrameExchange` of the other process maps each
segment once, and makes arrays that lie in it. When the last view of an array is gone, it notes that, and sends
`FramesReturned` before its next message about frames. Each process makes frames and sees frames of the other: its
`FrameExchange` does both.

A segment is free when this process has let go of the array, and the other has returned it as often as it was shown.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.ipc_messages import Plane

#: bytes of the smallest frame that gets a segment; a smaller one goes inline
WORTH_SHARING = 16 * 1024
#: how many free segments are kept for later frames, and how many bytes in them
_MOST_FREE, _MOST_FREE_BYTES = 16, 256 * 1024 * 1024
_PAGE = 64 * 1024
#: How many frames that are no longer in use may wait for the next message. After a session they wait for the next session.
#: With one more, all of them are returned at once.
MOST_UNRETURNED = 4


@dataclass(eq=False, slots=True)
class _Memory:
    number: int
    descriptor: int
    map: mmap.mmap
    size: int
    address: int
    #: uses: one for the array here, and one for each time that it was shown
    held: int = 0
    announced: bool = False


class SharedFrames:
    """The memory of one process for its frames. The other process maps it. `empty` may be called from any thread.

    Args:
        send: sends an IPC message with a file descriptor; only `show` calls it.
    """

    def __init__(self, send: Callable[[object, int | None], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._live: dict[int, _Memory] = {}
        self._free: list[_Memory] = []
        self._let_go: deque[int] = deque()  # finalizers run anywhere, also while the lock is held
        self._gone: list[int] = []
        self._numbers = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return an array to be filled; in shared memory, if it has at least `WORTH_SHARING` bytes."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if size < WORTH_SHARING:
            return np.empty(shape, kind)
        with self._lock:
            memory = self._take(size)
            memory.held = 1
            self._live[memory.number] = memory
        owner = (ctypes.c_char * size).from_buffer(memory.map)
        weakref.finalize(owner, self._let_go.append, memory.number).atexit = False
        return _array(owner, shape, kind)

    def show(self, frame: npt.NDArray[Any]) -> Plane:
        """Describe a frame for the other process, which later sends `FramesReturned`. Copies a frame that lies elsewhere."""
        if frame.nbytes < WORTH_SHARING:
            return Plane(frame.shape, frame.dtype.str, inline=frame.tobytes())
        found = self._find(frame)
        if found is None:  # it lies elsewhere
            mine = self.empty(frame.shape, frame.dtype)
            mine[...] = frame
            return self.show(mine)
        memory, offset = found
        with self._lock:
            memory.held += 1
            gone, self._gone = self._gone, []
        for number in gone:
            self._send(ipc_messages.SegmentFreed(number), None)
        if not memory.announced:
            memory.announced = True
            self._send(ipc_messages.FrameSegment(memory.number, memory.size), os.dup(memory.descriptor))
        return Plane(frame.shape, frame.dtype.str, memory.number, offset)

    def returned(self, numbers: list[int]) -> None:
        """The other process no longer uses the frames in these segments; a number is there once for each frame."""
        self._let_go.extend(numbers)

    def close(self) -> None:
        """Close all segments. Arrays that are still in use stay valid."""
        for memory in [*self._live.values(), *self._free]:
            os.close(memory.descriptor)
        self._live.clear()
        self._free.clear()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _find(self, frame: npt.NDArray[Any]) -> tuple[_Memory, int] | None:
        if not frame.flags.c_contiguous:
            return None
        address = frame.__array_interface__["data"][0]
        with self._lock:
            for memory in self._live.values():
                if memory.address <= address < memory.address + memory.size:
                    return memory, address - memory.address
        return None

    def _take(self, size: int) -> _Memory:
        self._collect()
        fitting = (memory for memory in self._free if size <= memory.size <= max(2 * size, _PAGE))
        if (best := min(fitting, key=lambda memory: memory.size, default=None)) is not None:
            self._free.remove(best)
            return best
        whole = -(-size // _PAGE) * _PAGE
        self._numbers += 1
        descriptor = os.memfd_create("reactor-frames", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, whole)
            mapped = mmap.mmap(descriptor, whole)
        except BaseException:
            os.close(descriptor)
            raise
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        return _Memory(self._numbers, descriptor, mapped, whole, address)

    def _collect(self) -> None:
        """Take back segments that are no longer in use, and close those beyond the limits."""
        while self._let_go:
            if (memory := self._live.get(self._let_go.popleft())) is not None:
                memory.held -= 1
                if not memory.held:
                    self._free.append(self._live.pop(memory.number))
        while len(self._free) > _MOST_FREE or sum(memory.size for memory in self._free) > _MOST_FREE_BYTES:
            memory = self._free.pop(0)
            os.close(memory.descriptor)
            if memory.announced:
                self._gone.append(memory.number)


class FrameExchange:
    """Both directions of frames between two processes. Make it on the loop of the link to the other process.

    Args:
        send: sends an IPC message, with its file descriptor.
        mine: the memory for this process's frames, if it exists already.
    """

    def __init__(self, send: Callable[..., None], mine: SharedFrames | None = None) -> None:
        self._send = send
        self._mine = mine or SharedFrames(send)
        self.show = self._mine.show
        self._token = trio.lowlevel.current_trio_token()
        #: the other process's segments
        self._maps: dict[int, mmap.mmap] = {}
        self._unused: deque[int] = deque()

    def receive(self, message: ipc_messages.FrameMemoryMessage, descriptor: int | None) -> None:
        """Process a message about memory; closes the descriptor."""
        match message:
            case ipc_messages.FrameSegment(number, size):
                assert descriptor is not None
                try:
                    self._maps[number] = mmap.mmap(descriptor, size)
                finally:
                    os.close(descriptor)
            case ipc_messages.SegmentFreed(number):  # arrays in it stay valid
                self._maps.pop(number, None)
            case ipc_messages.FramesReturned(numbers):
                self._mine.returned(numbers)

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """Return the frame, read-only. Raises KeyError or ValueError if there is no such frame."""
        kind = np.dtype(plane.dtype)
        if not plane.segment:
            return np.frombuffer(plane.inline, kind).reshape(plane.shape)
        size = prod(plane.shape) * kind.itemsize
        owner = (ctypes.c_char * size).from_buffer(self._maps[plane.segment], plane.offset)
        weakref.finalize(owner, self._let_go, plane.segment).atexit = False
        frame = _array(owner, plane.shape, kind)
        frame.flags.writeable = False
        return frame

    def return_unused(self) -> None:
        """Tell the other process which of its frames are no longer in use here, if there are any.

        Call it before a message that goes anyway: a message of its own would wake the other process once more for each
        frame, which costs it more than reading the message. At most `MOST_UNRETURNED` frames wait for such a message.
        """
        numbers = []
        while self._unused:  # other threads append meanwhile
            numbers.append(self._unused.popleft())
        if numbers:
            self._send(ipc_messages.FramesReturned(numbers))

    def close(self) -> None:
        """Close both directions. Arrays that are still in use stay valid."""
        self._maps.clear()
        self._mine.close()

    def _let_go(self, number: int) -> None:
        """A frame is no longer in use. Called on any thread."""
        self._unused.append(number)
        if len(self._unused) > MOST_UNRETURNED:  # no message takes them along: the session is paused, or over
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.return_unused, idempotent=True)


def _array(owner: ctypes.Array[ctypes.c_char], shape: tuple[int, ...], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the array that lies in `owner`, and keeps it alive."""
    flat: npt.NDArray[Any] = np.frombuffer(owner, kind)  # type: ignore[call-overload]
    return flat.reshape(shape)
