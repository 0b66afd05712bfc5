"""Frames in memory that two processes map.

`SharedFrames` belongs to the process that makes frames. It gives out memory before a frame is filled, so the one copy of
each accepted yield goes right into shared memory. The memory (`frame_memory`) is given out in *segments*, one for each
accepted array. The `FrameExchange` of the other process makes arrays that lie in it. When the last view of an array is gone,
it notes that, and sends `FramesReturned` before its next message about frames. Each process makes frames and sees frames of
the other: its `FrameExchange` does both.

A segment is free when this process has let go of the array, and the other has returned it as often as it was shown. So each
message with a `Plane` must be seen where it arrives, also if its session is over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.crossing.wire import Plane
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.frame_memory import PAGE, FrameMemory, FreeRanges

#: bytes of the smallest frame that gets a segment; a smaller one goes inline
WORTH_SHARING = 16 * 1024
#: how many free segments keep their pages for later frames, and how many bytes of them
_MOST_FREE, _MOST_FREE_BYTES = 16, 256 * 1024 * 1024
#: How many frames that are no longer in use may wait for the next message. After a session they wait for the next session.
#: With one more, all of them are returned at once.
MOST_UNRETURNED = 4


@dataclass(eq=False, slots=True)
class _Segment:
    number: int
    start: int
    size: int
    #: uses: one for the array here, and one for each time that it was shown
    held: int = 0


class SharedFrames:
    """The frames of one process, in its half of the memory. `empty` may be called from any thread."""

    def __init__(self, memory: FrameMemory, half: int) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._room = memory.half(half)
        self._live: dict[int, _Segment] = {}
        self._free: list[_Segment] = []
        self._let_go: deque[int] = deque()  # finalizers run anywhere, also while the lock is held
        self._numbers = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return an array to be filled; in shared memory, if it has at least `WORTH_SHARING` bytes and there is room."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if size >= WORTH_SHARING:
            with self._lock:
                if (segment := self._take(size)) is not None:
                    segment.held = 1
                    self._live[segment.number] = segment
                    return self._memory.array(segment.start, shape, kind, self._let_go.append, segment.number)
        return np.empty(shape, kind)

    def show(self, frame: npt.NDArray[Any]) -> Plane:
        """Describe a frame for the other process, which later sends `FramesReturned`. Copies a frame that lies elsewhere."""
        if frame.nbytes >= WORTH_SHARING:
            found = self._find(frame)
            if found is None:  # it lies elsewhere
                mine = self.empty(frame.shape, frame.dtype)
                mine[...] = frame
                found = self._find(mine)
            if found is not None:
                number, offset = found
                return Plane(frame.shape, frame.dtype.str, number, offset)
        return Plane(frame.shape, frame.dtype.str, inline=frame.tobytes())

    def returned(self, numbers: list[int]) -> None:
        """The other process no longer uses the frames in these segments; a number is there once for each frame."""
        self._let_go.extend(numbers)

    def close(self) -> None:
        """Give out no more shared memory. Arrays that are in use stay valid."""
        with self._lock:
            self._room = FreeRanges(0, 0)
            self._live.clear()
            self._free.clear()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _find(self, frame: npt.NDArray[Any]) -> tuple[int, int] | None:
        """Number and place of the segment that has the frame, with one more use of it; None if none has."""
        if not frame.flags.c_contiguous:
            return None
        offset = frame.__array_interface__["data"][0] - self._memory.address
        with self._lock:
            for segment in self._live.values():
                if segment.start <= offset < segment.start + segment.size:
                    segment.held += 1
                    return segment.number, offset
        return None

    def _take(self, size: int) -> _Segment | None:
        self._collect()
        fitting = (segment for segment in self._free if size <= segment.size <= max(2 * size, PAGE))
        if (best := min(fitting, key=lambda segment: segment.size, default=None)) is not None:
            self._free.remove(best)
            return best
        whole = -(-size // PAGE) * PAGE
        if (start := self._room.take(whole)) is None:
            return None
        self._numbers += 1
        return _Segment(self._numbers, start, whole)

    def _collect(self) -> None:
        """Take back segments that are no longer in use, and release the pages of those beyond the limits."""
        while self._let_go:
            if (segment := self._live.get(self._let_go.popleft())) is not None:
                segment.held -= 1
                if not segment.held:
                    self._free.append(self._live.pop(segment.number))
        while len(self._free) > _MOST_FREE or sum(segment.size for segment in self._free) > _MOST_FREE_BYTES:
            segment = self._free.pop(0)
            self._memory.release(segment.start, segment.size)
            self._room.give(segment.start, segment.size)


class FrameExchange:
    """Both directions of frames between two processes. Make it on the loop of the link to the other process.

    Args:
        memory: the memory of the two processes; the exchange closes it.
        half: the half of it for this process's frames.
        send: sends an IPC message.

    Attributes:
        empty, show: see `SharedFrames`.
        returned: the same.
    """

    def __init__(self, memory: FrameMemory, half: int, send: Callable[[object], None]) -> None:
        self._memory = memory
        self._send = send
        self._mine = SharedFrames(memory, half)
        self.empty, self.show, self.returned = self._mine.empty, self._mine.show, self._mine.returned
        self._token = trio.lowlevel.current_trio_token()
        self._unused: deque[int] = deque()

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """Return the frame, read-only. Raises ValueError if it does not lie in the memory."""
        kind = np.dtype(plane.dtype)
        if not plane.segment:
            return np.frombuffer(plane.inline, kind).reshape(plane.shape)
        frame = self._memory.array(plane.offset, plane.shape, kind, self._let_go, plane.segment)
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
        """Close both directions. Arrays that are still in use stay valid; a frame that is shown now goes inline."""
        self._mine.close()
        self._memory.close()

    def _let_go(self, number: int) -> None:
        """A frame is no longer in use. Called on any thread."""
        self._unused.append(number)
        if len(self._unused) > MOST_UNRETURNED:  # no message takes them along: the session is paused, or over
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.return_unused, idempotent=True)
