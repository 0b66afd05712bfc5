"""Frames in memory that two processes map.

A `FrameExchange` gives out memory before a frame is filled, so the one copy of each accepted yield goes right into shared
memory (`memory.shared_arrays`). The exchange of the other process makes arrays that lie there. When the last view of one is
gone, it notes that, and the next message takes `FramesReturned` along in the same bytes. Each process makes frames and sees
frames of the other: its exchange does both.

So each message with a `Plane` must be seen where it arrives, also if its session is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.crossing.wire import Plane
from reactor_trio.memory.shared_arrays import SharedArrays
from reactor_trio.memory.shared_mapping import SharedMapping
from reactor_trio.placement.isolation import ipc_messages

#: Where the frames of each process lie, as the number of the half.
SERVER, MODEL = 0, 1
#: bytes of the smallest frame that goes into shared memory; a smaller one goes inline
WORTH_SHARING = 16 * 1024
#: How many frames that are no longer in use may wait for the next message. After a session they wait for the next session.
#: With one more, all of them are returned at once.
MOST_UNRETURNED = 4


class FrameExchange:
    """Both directions of frames between two processes. Make it on the loop of the link to the other process.

    Args:
        memory: the memory of the two processes; the exchange closes it.
        half: the half of it for this process's frames.
        send: sends an IPC message.
    """

    def __init__(self, memory: SharedMapping, half: int, send: Callable[[object], None]) -> None:
        self._memory = memory
        self._send = send
        self._mine = SharedArrays(memory, half)
        self._token = trio.lowlevel.current_trio_token()
        self.unused: deque[int] = deque()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return an array to be filled; in shared memory, if it has at least `WORTH_SHARING` bytes and there is room.

        Any thread may call it.
        """
        kind = np.dtype(dtype)
        if prod(shape) * kind.itemsize >= WORTH_SHARING and (frame := self._mine.empty(shape, kind)) is not None:
            return frame
        return np.empty(shape, kind)

    def show(self, frame: npt.NDArray[Any]) -> Plane:
        """Describe a frame for the other process, which later sends `FramesReturned`. Copies a frame that lies elsewhere."""
        if frame.nbytes >= WORTH_SHARING:
            shown = self._mine.show(frame)
            if shown is None:  # it lies elsewhere
                mine = self.empty(frame.shape, frame.dtype)
                mine[...] = frame
                shown = self._mine.show(mine)
            if shown is not None:
                return Plane(frame.shape, frame.dtype.str, *shown)
        return Plane(frame.shape, frame.dtype.str, inline=frame.tobytes())

    def returned(self, numbers: list[int]) -> None:
        """The other process no longer uses the frames in these slots; a number is there once for each frame."""
        self._mine.release(numbers)

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """Return the frame, read-only. Raises ValueError if it does not lie in the memory."""
        kind = np.dtype(plane.dtype)
        if not plane.slot:
            return np.frombuffer(plane.inline, kind).reshape(plane.shape)
        frame = self._memory.array(plane.offset, plane.shape, kind, self._released, plane.slot)
        frame.flags.writeable = False
        return frame

    def return_unused(self) -> None:
        """Tell the other process now which of its frames are no longer in use here, if there are any.

        Mostly the next message takes that along (`Wire.encode`): a message of its own would wake the other process once
        more for each frame, which costs it more than reading the message. At most `MOST_UNRETURNED` frames wait.
        """
        if self.unused:
            self._send(self.returns())

    def returns(self) -> ipc_messages.FramesReturned:
        """The message that returns what is `unused`, which is empty then."""
        numbers = []
        with suppress(IndexError):  # not `while self.unused`: another thread may take the last one in between
            while True:
                numbers.append(self.unused.popleft())
        return ipc_messages.FramesReturned(numbers)

    def close(self) -> None:
        """Close both directions. Arrays that are still in use stay valid; a frame that is shown now goes inline."""
        self._mine.close()
        self._memory.close()

    def _released(self, number: int) -> None:
        """A frame is no longer in use. Called on any thread."""
        self.unused.append(number)
        if len(self.unused) > MOST_UNRETURNED:  # no message takes them along: the session is paused, or over
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.return_unused, idempotent=True)
