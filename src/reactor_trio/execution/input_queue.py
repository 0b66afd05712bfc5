"""Input frames on their way from the I/O loop, where they arrive, to the buffers that author code reads.

Each track has one short queue. The I/O loop puts frames at one end. The model loop takes them from the other end, when a
posted call says that frames have come and whenever author code looks into a buffer. So a generator that reads twice in one
blocking step sees what came in between. The loops share only the operations of the deque, which are atomic. Queue and buffer
have the same bounds, half of `runtime.limits.input_bytes` each, so a model that computes for a minute costs no more memory
than one that reads.

The buffers live as long as the model, since author code may keep one. A session opens them, empty, and closes them. Each
frame in the queue carries the number of its session: a frame of a past session is dropped, and a frame of a session that the
model loop does not know yet stays until it does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from reactor_trio.concurrency import ModelHost
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import INPUT_BYTES, InputBuffer, InputFrame
from reactor_trio.interface.tracks import with_buffers
from reactor_trio.telemetry import Telemetry


class InputQueue:
    """The input tracks of one model instance.

    Args:
        telemetry: counts and traces what happens.
        read: called on the model loop with the newest frame of each read.
        arrived: called on the model loop when frames have come.
        ended: called on the model loop when a reader gets BufferClosed.
        most_bytes: bytes of frames that may wait on a track, beyond one frame in each of its two places.
        waits: called on the model loop when a reader begins to wait for frames (True), and when it goes on (False).
    """

    def __init__(
        self,
        host: ModelHost,
        declaration: Declaration,
        telemetry: Telemetry,
        read: Callable[[InputFrame], object],
        arrived: Callable[[], object],
        ended: Callable[[], object],
        most_bytes: int = INPUT_BYTES,
        waits: Callable[[bool], object] = lambda _waits: None,
    ) -> None:
        self._most_bytes = most_bytes // 2
        self._host = host
        self._telemetry = telemetry
        self._arrived = arrived
        self._session: float = 0  # on the model loop: the session that the buffers are open for
        self._newest_session = 0  # on the I/O loop
        self._posted = False
        self._tracks: dict[str, tuple[deque[tuple[int, InputFrame]], InputBuffer]] = {
            track.name: (deque(), InputBuffer(self._look, read, ended, self._count, most_bytes // 2, waits))
            for track in declaration.tracks
            if track.direction == "in"
        }
        #: by the attribute of the model, its `Input` class with a buffer in each field
        self.inputs = with_buffers(declaration.inputs, {name: buffer for name, (_, buffer) in self._tracks.items()})
        self.close()

    # ---- on the I/O loop ----------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Open the buffers for a new session; returns its number, for `put`. The session before must have ended."""
        self._newest_session += 1
        if self._tracks:
            self._host.post(self.open, self._newest_session)
        return self._newest_session

    def put(self, session: int, track: str, frame: InputFrame) -> None:
        """Queue a frame that has arrived, and drop the oldest beyond what a buffer holds. Never waits."""
        queue, _ = self._tracks[track]
        queue.append((session, frame))
        while len(queue) > InputBuffer.capacity or (
            len(queue) > 1 and sum(waiting.data.nbytes for _, waiting in tuple(queue)) > self._most_bytes
        ):
            try:
                queue.popleft()
            except IndexError:  # the model has just taken them
                break
            self._telemetry.dropped("input", "evicted", 1)
        if not self._posted:
            self._posted = True
            self._host.post(self._arrive)

    # ---- on the model loop --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session: drop what has not been read; every reader gets BufferClosed."""
        for _, buffer in self._tracks.values():
            buffer.close()

    def retire(self) -> None:
        """Close for good: let go of the model and of its sessions. A frame that still comes is dropped, and counted."""
        for _, buffer in self._tracks.values():
            buffer.retire()
        self._session, self._arrived = math.inf, lambda: None

    def keep_newest(self) -> None:
        """Drop what has not been read, but the newest frame of each track: the session was paused meanwhile."""
        for _, buffer in self._tracks.values():
            buffer.keep_newest()

    def open(self, session: int = 0) -> None:
        """Open the buffers, empty, for this session, or (0) for code that waits for the first one."""
        for _, buffer in self._tracks.values():
            buffer.reset()  # takes over and forgets the frames of the session before
        self._session = session
        self._look()

    def _arrive(self) -> None:
        self._posted = False  # first: a frame that is put from here on posts again
        self._look()
        self._arrived()

    def _look(self) -> None:
        for queue, buffer in self._tracks.values():
            while queue:
                try:
                    session, frame = queue.popleft()
                except IndexError:  # the I/O loop has just dropped it
                    break
                if session > self._session:
                    queue.appendleft((session, frame))
                    break
                if session == self._session:
                    buffer.put(frame)
                else:
                    self._count("unread", 1)

    def _count(self, reason: str, frames: int) -> None:
        self._host.post_io(self._telemetry.dropped, "input", reason, frames)
