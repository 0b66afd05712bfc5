"""Frames from the client: the `InputBuffer` that a model finds at `self.input.<track>`.

Only the model loop uses a buffer. It takes over frames that arrived on the I/O loop when that loop posts them, and also on
each look of the model: a sync generator that reads twice in one step gets the frames that arrived in between.
"""

from __future__ import annotations

import enum
import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt
import trio

from reactor_trio.errors import BufferClosed

log = logging.getLogger("reactor_trio.model")

#: Bytes of decoded frames that may wait on one track: half on the way to the model, half in its buffer.
INPUT_BYTES = 512 * 1024 * 1024

#: Seconds that a read of a closed buffer waits before it raises, so that a loop that ignores the error does not spin.
_CLOSED_WAIT = 0.02


class ReadMode(enum.Enum):
    """Which of the waiting frames a read returns.

    Attributes:
        LATEST: the newest frames. Older ones are discarded, so that a slow model stays current.
        FIFO: the oldest frames. The others stay.
    """

    LATEST = "latest"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, eq=False)
class InputFrame:
    """One frame from the client.

    Attributes:
        data: a picture `(H, W, 3)` uint8 RGB, or sound `(1, M)` int16 at the track's `sample_rate`. You may change it.
        pts: the capture time in seconds, on the client's clock, which begins with its first frame; a frame that a test
            makes may leave it out.
        metadata: bytes that the client sent with the frame, or None.
        capture_time_us: the capture time in microseconds of whatever clock the client states, or None.
    """

    data: npt.NDArray[Any]
    pts: float = 0.0
    metadata: bytes | None = None
    capture_time_us: int | None = None


def _nothing(*_given: object) -> None: ...


class InputBuffer:
    """The newest frames of one input track, oldest first. The runtime makes it and puts frames in.

    It is closed while no client is connected. For each client the runtime opens it again, empty, so that a model never reads
    frames of a past client. Use it only in model code, on the model's own thread.

    Args:
        look: called before each look at the frames, to take over frames that have arrived.
        read: called with the newest frame of each read.
        ended: called before a reader gets BufferClosed.
        dropped: called with the reason and the number of frames that no reader will get.
        max_bytes: bytes kept at most; one frame is always kept.
        waits: called with True when a read starts to wait, and with False when it stops.
    """

    #: frames kept at most; beyond it the oldest are dropped
    capacity: ClassVar[int] = 128

    def __init__(
        self,
        look: Callable[[], object] = _nothing,
        read: Callable[[InputFrame], object] = _nothing,
        ended: Callable[[], object] = _nothing,
        dropped: Callable[[str, int], object] = _nothing,
        max_bytes: int = INPUT_BYTES // 2,
        waits: Callable[[bool], object] = _nothing,
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
        #: number of frames in the last request that the buffer could not fill at once
        self._wanted = 0
        self._warned = False

    @property
    def available(self) -> int:
        """Number of frames that can be read now."""
        self._look()
        return len(self._frames)

    @property
    def total_received(self) -> int:
        """Number of frames received since the buffer was opened, including dropped ones."""
        self._look()
        return self._received

    @property
    def closed(self) -> bool:
        """Whether no frames will come, because no client is connected or the model closed the buffer."""
        return self._closed

    async def read(
        self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST
    ) -> list[InputFrame]:
        """Wait for `n` frames and take them: the newest `n`, or with `ReadMode.FIFO` the oldest. They come oldest first.

        Args:
            n: number of frames, 1 to 128.
            timeout: seconds to wait at most; None: as long as the client is connected.

        Raises:
            ValueError: `n` is not 1 to 128, or `timeout` is negative.
            TimeoutError: fewer than `n` frames arrived in time. They stay in the buffer.
            BufferClosed: the client left, or the model closed the buffer. In a pipeline, do not catch it: it ends the
                generator cleanly. In `run()`, catch it and wait for the next client.

        Always a checkpoint. If it is cancelled, it has taken no frame.
        """
        _check(n)
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be seconds, 0 or more, not {timeout!r}")
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(math.inf if timeout is None else timeout):
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
            raise BufferClosed("the input buffer is closed: no client is connected")
        if len(self._frames) < n:
            raise TimeoutError(f"{len(self._frames)} of {n} frames within {timeout:g} s")
        return self._take(n, mode)

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """Take `n` frames like `read`, but without waiting, for sync generators.

        Returns None, and takes nothing, if fewer than `n` frames are available or the buffer is closed. Raises ValueError
        unless `n` is 1 to 128.
        """
        _check(n)
        if self.available >= n:
            return self._take(n, mode)
        self._wanted = n
        return None

    def clear(self) -> None:
        """Drop the waiting frames."""
        self._look()
        if self._frames:
            self._dropped("unread", len(self._frames))
        self._frames.clear()
        self._bytes = 0

    def keep_newest(self) -> None:
        """Drop all waiting frames but the newest. The runtime calls it when a paused session goes on."""
        self._look()
        if (old := len(self._frames) - 1) > 0:
            newest = self._frames[-1]
            self._dropped("superseded", old)
            self._frames, self._bytes = deque([newest]), newest.data.nbytes

    def close(self) -> None:
        """Drop all waiting and later frames, and end every `read`. The runtime calls it at the session's end."""
        self.clear()
        self._closed = True
        self._wake()

    def reset(self) -> None:
        """Open the buffer, empty, with its count at 0. The runtime calls it when a client connects."""
        self.clear()
        self._received = 0
        self._closed = self._warned = False
        self._wanted = 0

    def retire(self) -> None:
        """Close for good. The runtime calls it when no session will use this buffer again; author code may still keep it."""
        self.close()
        self._look = self._read = self._ended = self._dropped = self._waits = _nothing

    def put(self, frame: InputFrame) -> None:
        """Add a frame; a full buffer drops its oldest ones. Only the runtime calls it."""
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

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _check(n: int) -> None:
    if not 1 <= n <= InputBuffer.capacity:
        raise ValueError(f"n must be 1 to {InputBuffer.capacity}, the frames that a buffer keeps, not {n!r}")
