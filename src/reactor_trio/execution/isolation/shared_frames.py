"""Frames in memory that two processes map.

Who makes frames has `SharedFrames`: it gives memory for a frame before it is filled, so that the copy which every accepted
yield costs is made there and nowhere else. The memory lies in *segments* (`memfd_create`: no name, so nothing is left of it
when both processes are gone), one for each accepted array, used again when nobody looks at it. The other side has
`SeenFrames`: it maps each segment once, and gives arrays that lie in it. When the last view of one is gone, wherever that
is, it says so. Each process makes frames and sees those of the other: `FrameExchange` is both.

A segment is free when this side has let go of the array and the other side has returned it as often as it was shown.
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

from reactor_trio.execution.isolation.ipc_messages import Gone, Memory, Plane, Returned, Segment

#: bytes of a frame that is worth a segment; a smaller one goes inline
WORTH_SHARING = 16 * 1024
#: free segments and bytes in them that are kept for the next frame
_MOST_FREE, _MOST_FREE_BYTES = 16, 256 * 1024 * 1024
_PAGE = 64 * 1024


@dataclass(eq=False, slots=True)
class _Memory:
    number: int
    descriptor: int
    map: mmap.mmap
    size: int
    address: int
    #: who looks at it: the array here, and each time that it was shown
    held: int = 0
    announced: bool = False


class SharedFrames:
    """The memory of one process in which its frames lie, for the other to see. `empty` may be called from any thread.

    Args:
        send: says a word to the other process, with a descriptor; called by `show` alone.
    """

    def __init__(self, send: Callable[[object, int | None], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._live: dict[int, _Memory] = {}
        self._free: list[_Memory] = []
        self._let_go: deque[int] = deque()  # finalizers run anywhere, also where the lock is held
        self._gone: list[int] = []
        self._numbers = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """An array to be filled, in memory that the other process can see if it is worth that."""
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
        """How the other process finds the frame; `returned` is to be told when that looks at it no longer."""
        if frame.nbytes < WORTH_SHARING:
            return Plane(frame.shape, frame.dtype.str, inline=frame.tobytes())
        found = self._find(frame)
        if found is None:
            mine = self.empty(frame.shape, frame.dtype)
            mine[...] = frame
            found = self._find(mine)
        assert found is not None
        memory, offset = found
        with self._lock:
            memory.held += 1
            gone, self._gone = self._gone, []
        for number in gone:
            self._send(Gone(number), None)
        if not memory.announced:
            memory.announced = True
            self._send(Segment(memory.number, memory.size), os.dup(memory.descriptor))
        return Plane(frame.shape, frame.dtype.str, memory.number, offset)

    def returned(self, numbers: list[int]) -> None:
        """The other process looks no longer at the frames in these, once for each."""
        self._let_go.extend(numbers)

    def close(self) -> None:
        """Let go of all; arrays that somebody still has stay as they are."""
        for memory in [*self._live.values(), *self._free]:
            os.close(memory.descriptor)
        self._live.clear()
        self._free.clear()

    @property
    def in_use(self) -> int:
        """Segments whose frames somebody looks at."""
        with self._lock:
            self._collect()
            return len(self._live)

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
        fitting = [memory for memory in self._free if size <= memory.size <= max(2 * size, _PAGE)]
        if fitting:
            best = min(fitting, key=lambda memory: memory.size)
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
        """Take back what nobody looks at, and let go of what is too much."""
        while self._let_go:
            number = self._let_go.popleft()
            memory = self._live.get(number)
            if memory is None:
                continue
            memory.held -= 1
            if not memory.held:
                del self._live[number]
                self._free.append(memory)
        while len(self._free) > _MOST_FREE or sum(memory.size for memory in self._free) > _MOST_FREE_BYTES:
            memory = self._free.pop(0)
            os.close(memory.descriptor)
            if memory.announced:
                self._gone.append(memory.number)


class SeenFrames:
    """The other process's segments. Made on the loop that talks to it.

    Args:
        send: says a word to the other process.
    """

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._token = trio.lowlevel.current_trio_token()
        self._maps: dict[int, mmap.mmap] = {}
        self._unseen: deque[int] = deque()

    def add(self, segment: Segment, descriptor: int) -> None:
        """A segment was announced; the descriptor is closed."""
        try:
            self._maps[segment.number] = mmap.mmap(descriptor, segment.size)
        finally:
            os.close(descriptor)

    def gone(self, number: int) -> None:
        """It will not be used any more; arrays in it stay as they are."""
        self._maps.pop(number, None)

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """The frame, read-only. Raises KeyError or ValueError for one that cannot be."""
        kind = np.dtype(plane.dtype)
        if not plane.segment:
            return np.frombuffer(plane.inline, kind).reshape(plane.shape)
        size = prod(plane.shape) * kind.itemsize
        owner = (ctypes.c_char * size).from_buffer(self._maps[plane.segment], plane.offset)
        weakref.finalize(owner, self._let_go, plane.segment).atexit = False
        frame = _array(owner, plane.shape, kind)
        frame.flags.writeable = False
        return frame

    def close(self) -> None:
        """Nothing more is seen; arrays that somebody still has stay as they are."""
        self._maps.clear()

    def _let_go(self, number: int) -> None:
        """On any thread: nobody looks at a frame any longer."""
        self._unseen.append(number)
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._tell, idempotent=True)

    def _tell(self) -> None:
        numbers, self._unseen = list(self._unseen), deque()
        self._send(Returned(numbers))


class FrameExchange:
    """The frames that one process shows the other, and those that it sees. Made on the loop that talks to it.

    Args:
        send: says a word to the other process, with its descriptor.
        mine: where frames of this one lie, if that was arranged already.
    """

    def __init__(self, send: Callable[..., None], mine: SharedFrames | None = None) -> None:
        self._mine = mine or SharedFrames(send)
        self._seen = SeenFrames(send)

    def show(self, frame: npt.NDArray[Any]) -> Plane:
        """How the other process finds a frame of this one."""
        return self._mine.show(frame)

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """A frame of the other process, read-only. Raises KeyError or ValueError for one that cannot be."""
        return self._seen.see(plane)

    def hear(self, word: Memory, descriptor: int | None) -> None:
        """The other process says something of memory; the descriptor of a segment is closed."""
        match word:
            case Segment():
                assert descriptor is not None
                self._seen.add(word, descriptor)
            case Gone(number):
                self._seen.gone(number)
            case Returned(numbers):
                self._mine.returned(numbers)

    def close(self) -> None:
        """Nothing more is shown or seen; arrays that somebody still has stay as they are."""
        self._seen.close()
        self._mine.close()


def _array(owner: ctypes.Array[ctypes.c_char], shape: tuple[int, ...], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """What lies in `owner`, which lives as long as a view of this does."""
    flat: npt.NDArray[Any] = np.frombuffer(owner, kind)  # type: ignore[call-overload]
    return flat.reshape(shape)
