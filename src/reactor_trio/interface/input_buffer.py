"""Frames from the client: what a model finds at `self.input.<track>`.

A buffer is touched on the model loop alone. Frames that have arrived on the I/O loop are taken over when that loop's word is
heard, and also whenever the model looks: a sync generator that reads twice in one step sees what came in between.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt
import trio

from reactor_trio.errors import BufferClosed

log = logging.getLogger("reactor_trio.model")

#: Bytes of decoded frames that may wait on one track: half of them on the way to the model, half in its buffer.
INPUT_BYTES = 512 * 1024 * 1024

#: Seconds for which a read of a buffer that is closed already waits, so that a loop that goes on does not spin.
_CLOSED_WAIT = 0.02


class ReadMode(enum.Enum):
    """Which of the frames that wait are read.

    Attributes:
        LATEST: the newest; those before them are discarded, so a slow model stays current.
        FIFO: the oldest; the others stay.
    """

    LATEST = "latest"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, eq=False)
class InputFrame:
    """One frame from the client.

    Attributes:
        data: a picture `(H, W, 3)` uint8 RGB, or sound `(1, M)` int16 at the track's `sample_rate`. Yours to change.
        pts: when the client captured it, in seconds on the client's own clock, which begins with its first frame.
    """

    data: npt.NDArray[Any]
    pts: float


class InputBuffer:
    """The newest frames of one input track, oldest first; the runtime makes it and puts frames in.

    Closed while no client is there, opened again, empty, for the next one: frames of a past client are never read. Use it
    in model code only, on the model's own thread.

    Args:
        look: called before each look, to take over what has arrived.
        read: called with the newest frame of each read.
        ended: called before BufferClosed is raised to a reader.
        dropped: told of frames that will not be read: why, and how many.
        max_bytes: bytes kept at most, beyond one frame.
    """

    #: frames kept; of more the oldest are dropped
    capacity: ClassVar[int] = 128

    def __init__(
        self,
        look: Callable[[], object] = lambda: None,
        read: Callable[[InputFrame], object] = lambda _frame: None,
        ended: Callable[[], object] = lambda: None,
        dropped: Callable[[str, int], object] = lambda _reason, _frames: None,
        max_bytes: int = INPUT_BYTES // 2,
        waits: Callable[[bool], object] = lambda _waits: None,
    ) -> None:
        self.max_bytes = max_bytes
        self._look = look
        self._read = read
        self._ended = ended
        self._dropped = dropped
        self._waits = waits
        self._frames: deque[InputFrame] = deque()
        self._bytes = 0
        self._received = 0
        self._closed = False
        self._changed = trio.Event()
        #: frames that a reader wants and that were not there
        self._wanted = 0
        self._warned = False

    @property
    def available(self) -> int:
        """Frames that can be read now."""
        self._look()
        return len(self._frames)

    @property
    def total_received(self) -> int:
        """Frames received since the buffer was opened, those dropped counted."""
        self._look()
        return self._received

    @property
    def closed(self) -> bool:
        """Whether no frames come, because there is no client or the model closed the buffer."""
        return self._closed

    async def read(
        self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST
    ) -> list[InputFrame]:
        """Wait until `n` frames are there and take them: the newest `n`, or with `ReadMode.FIFO` the oldest; oldest first.

        Args:
            n: 1 to 128.
            timeout: seconds to wait at most; None: as long as the client is there.

        Raises:
            ValueError: `n` is not 1 to 128, or `timeout` is negative.
            TimeoutError: `n` frames were not there in time; those that were stay.
            BufferClosed: the client left, or the model closed the buffer. Let it pass: it ends a pipeline's generator
                cleanly. Catch it in `run()`, and wait for the next client.

        Always a checkpoint. Cancelled, it has taken nothing.
        """
        _check(n)
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be seconds, 0 or more, not {timeout!r}")
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            if self._closed:
                await trio.sleep(_CLOSED_WAIT)
            while not self._closed and self.available < n:
                self._wanted = n
                self._waits(True)
                try:
                    await self._changed.wait()
                finally:
                    self._waits(False)
        if self._closed:
            self._ended()
            raise BufferClosed("the input buffer is closed: no client is there")
        if len(self._frames) < n:
            raise TimeoutError(f"{len(self._frames)} of {n} frames within {timeout:g} s")
        return self._take(n, mode)

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """Take `n` frames as `read` does if they are there; else None, and those that are there stay.

        Never waits: it is for sync generators. None also while the buffer is closed. Raises ValueError unless `n` is 1 to
        128.
        """
        _check(n)
        if self.available >= n:
            return self._take(n, mode)
        self._wanted = n
        return None

    def clear(self) -> None:
        """Drop the frames that wait."""
        self._look()
        self._forget("unread")

    def close(self) -> None:
        """Drop the frames that wait and end every `read`; frames that come are dropped. The runtime does so at the end."""
        self.clear()
        self._closed = True
        self._wake()

    def reset(self) -> None:
        """Open the buffer, empty and counting from 0. The runtime does so when a client comes."""
        self._look()
        self._forget("unread")
        self._received = 0
        self._closed = self._warned = False
        self._wanted = 0

    def put(self, frame: InputFrame) -> None:
        """A frame has arrived. For the runtime; of a full buffer the oldest frame is dropped."""
        self._received += 1
        if self._closed:
            self._dropped("unread", 1)
            return
        self._frames.append(frame)
        self._bytes += frame.data.nbytes
        evicted = 0
        while len(self._frames) > self.capacity or (self._bytes > self.max_bytes and len(self._frames) > 1):
            self._bytes -= self._frames.popleft().data.nbytes
            evicted += 1
        if evicted:
            self._dropped("evicted", evicted)
            self._warn_if_too_few(frame)
        self._wake()

    def _warn_if_too_few(self, frame: InputFrame) -> None:
        if len(self._frames) < self._wanted and not self._warned:
            self._warned = True
            log.warning(
                "the model reads %d frames at a time from an input track that keeps %d of shape %s: read fewer, or raise "
                "runtime.limits.input_bytes", self._wanted, len(self._frames), frame.data.shape,
            )  # fmt: skip

    def _take(self, n: int, mode: ReadMode) -> list[InputFrame]:
        if mode is ReadMode.LATEST and (old := len(self._frames) - n):
            for _ in range(old):
                self._bytes -= self._frames.popleft().data.nbytes
            self._dropped("superseded", old)
        self._wanted = 0
        frames = [self._frames.popleft() for _ in range(n)]
        self._bytes -= sum(frame.data.nbytes for frame in frames)
        self._read(frames[-1])
        return frames

    def _forget(self, reason: str) -> None:
        if self._frames:
            self._dropped(reason, len(self._frames))
        self._frames.clear()
        self._bytes = 0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _check(n: int) -> None:
    if not 1 <= n <= InputBuffer.capacity:
        raise ValueError(f"n must be 1 to {InputBuffer.capacity}, the frames that a buffer keeps, not {n!r}")
