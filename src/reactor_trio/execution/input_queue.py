"""Frames into the model: from the I/O loop, where they arrive, to the buffers that author code reads.

What has arrived lies in one short queue for each track. The I/O loop puts at one end; the model loop takes from the other,
at the posted word that there is something and whenever the model looks by itself, so that a generator that reads twice in
one blocking step sees what came meanwhile. Only the operations of the deque are shared, and these are atomic. The queue has
the bounds of the buffer behind it, so a model that computes for a minute costs no more memory than one that reads: half of
`runtime.limits.input_bytes` for each of the two.

The buffers are the model's for the server's life, since author code may keep one. A session opens them, empty, and closes
them. Each frame lies in the queue with the number of its session: one of a past session is dropped, one of a session that
the model loop has not heard of yet stays until it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from reactor_trio.concurrency import ModelHost
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import INPUT_BYTES, InputBuffer, InputFrame
from reactor_trio.interface.tracks import Input
from reactor_trio.telemetry import Telemetry


class InputQueue:
    """The input tracks of one model instance.

    Args:
        telemetry: counts and traces what happens.
        read: told on the model loop of the newest frame of each read.
        arrived: told on the model loop that frames have come.
        ended: told on the model loop that a reader gets BufferClosed.
        most_bytes: bytes of frames that may wait on a track, beyond one frame in each of its two places.
        waits: told on the model loop when a reader waits for frames (True), and when it goes on.
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
        self._session = 0  # on the model loop: the session that the buffers are open for
        self._newest_session = 0  # on the I/O loop
        self._told = False
        self._ways: dict[str, tuple[deque[tuple[int, InputFrame]], InputBuffer]] = {
            track.name: (deque(), InputBuffer(self._look, read, ended, self._count, most_bytes // 2, waits))
            for track in declaration.tracks
            if track.direction == "in"
        }
        #: by the attribute of the model, its `Input` class with a buffer in each field
        self.inputs: dict[str, Input] = {
            attribute: _with_buffers(cls, {name: buffer for name, (_, buffer) in self._ways.items()})
            for attribute, cls in declaration.inputs.items()
        }
        if declaration.kind == "pipeline":
            self._close()

    # ---- on the I/O loop ----------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """A session begins; its number, for `put`. Before its frames, and after the one before it has ended."""
        self._newest_session += 1
        if self._ways:
            self._host.post(self._open, self._newest_session)
        return self._newest_session

    def put(self, session: int, track: str, frame: InputFrame) -> None:
        """A frame of an input track has arrived. Never waits; of more than a buffer holds the oldest is dropped."""
        way, _ = self._ways[track]
        way.append((session, frame))
        while len(way) > InputBuffer.capacity or (
            len(way) > 1 and sum(waiting.data.nbytes for _, waiting in tuple(way)) > self._most_bytes
        ):
            try:
                way.popleft()
            except IndexError:  # the model has just taken them
                break
            self._telemetry.dropped("input", "evicted", 1)
        if not self._told:
            self._told = True
            self._host.post(self._hear)

    # ---- on the model loop --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The session is over: what has not been read is dropped, and every reader is told."""
        self._close()

    def _open(self, session: int) -> None:
        for _, buffer in self._ways.values():
            buffer.reset()  # takes over and forgets what was for the session before
        self._session = session
        self._look()

    def _close(self) -> None:
        for _, buffer in self._ways.values():
            buffer.close()

    def _hear(self) -> None:
        self._told = False  # first: what is put from here on is posted again
        self._look()
        self._arrived()

    def _look(self) -> None:
        for way, buffer in self._ways.values():
            while way:
                try:
                    session, frame = way.popleft()
                except IndexError:  # the I/O loop has just dropped it
                    break
                if session > self._session:
                    way.appendleft((session, frame))
                    break
                if session == self._session:
                    buffer.put(frame)
                else:
                    self._count("unread", 1)

    def _count(self, reason: str, frames: int) -> None:
        self._host.post_io(self._telemetry.dropped, "input", reason, frames)


def _with_buffers(cls: type[Input], buffers: dict[str, InputBuffer]) -> Input:
    fields: dict[str, Any] = {track.name: buffers[track.name] for track in cls.__reactor_tracks__}
    return cls(**fields)
