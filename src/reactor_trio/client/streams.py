"""The async iterators over frames and messages. A frame is decoded when it is taken, so a dropped frame costs nothing.

Expensive decoding runs on a worker thread. A packet that has left the queue and is not yet decoded stays with the stream, so
cancelling an iteration at any point loses no frame, and two threads never use one decoder.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
from numpy.typing import NDArray

from reactor_trio.client.broadcast import Reader
from reactor_trio.client.decoders import Decoder, blocking, make_decoder
from reactor_trio.client.session_events import Message, Received
from reactor_trio.client.statistics import LatencyMeter
from reactor_trio.decoding import DecodeError
from reactor_trio.errors import ProtocolError, SessionEnded
from reactor_trio.protocol import TrackInfo

#: undecodable keyframes in a row after which the stream gives up
MOST_UNDECODED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One decoded frame.

    Attributes:
        data: a picture `(H, W, 3)` uint8 RGB, or sound `(1, M)` int16. Do not write to it: it may be a view.
        seq: number of the frame in its track, from 0; a gap is a dropped frame.
        pts: presentation time in seconds since the session began.
        command_id: the controlling client's newest command that the frame was made with, or None.
        step: the model step that made the frame, from 0.
        keyframe: whether the frame could be decoded without an earlier one.
        track: name of its track.
        meta: further data of the server.
        received_at: time of arrival, on the clock of `anyio.current_time()`.
    """

    data: NDArray[Any]
    seq: int
    pts: float
    command_id: int | None
    step: int
    keyframe: bool
    track: str
    meta: dict[str, Any]
    received_at: float


@dataclass(eq=False)
class FrameStream:
    """The async iterator of `Client.frames()`; for one task at a time. It needs no close.

    Args:
        reader: the track's packets.
        run_in_thread: runs a function on a worker thread.
        latency: measures when the consumer takes a frame.
    """

    _reader: Reader[Received]
    _run_in_thread: Callable[[Callable[[], None]], Awaitable[None]]
    _latency: LatencyMeter

    def __post_init__(self) -> None:
        self._work = _DecodeQueue(self._reader.latest)
        self._failures = 0
        self._newest = -1

    def __aiter__(self) -> FrameStream:
        return self

    async def __anext__(self) -> Frame:
        work, reader = self._work, self._reader
        while True:
            # Read in the order in which a packet goes: a thread may be at work whose caller was cancelled.
            idle = not work.waiting and not work.busy
            while work.outcomes:
                outcome = work.outcomes.popleft()
                if (frame := self._settle(outcome)) is not None:
                    self._latency.taken(outcome.received.track.index, frame.seq, anyio.current_time())
                    return frame
            threaded = True  # if it is not idle, a cancelled call has left packets to its thread
            if idle:
                received = await reader.get()
                work.waiting.append(received)
                threaded = blocking(received.track)
            if reader.latest:
                work.waiting.extend(reader.take())
            if threaded:
                await self._run_in_thread(work)
            else:
                work()

    async def after(self, command: int) -> Frame:
        """Return the first frame made with this command or a later one (`Client.last_command`); skip the frames before it.

        Raises what the iteration raises, and SessionEnded where the iteration stops. Cancellation loses only skipped frames.
        """
        async for frame in self:
            if frame.command_id is not None and frame.command_id >= command:
                return frame
        raise SessionEnded("done", f"the session ended before a frame with command {command} came")

    def _settle(self, outcome: _Outcome) -> Frame | None:
        """Return the frame to give, if any; count lost and skipped frames."""
        received, error = outcome.received, outcome.error
        if error is None:
            self._failures = 0
            self._reader.source.skipped += outcome.passed
            if outcome.data is None or received.packet.seq <= self._newest:
                return None  # a repeat after a reconnect, which only starts the decoder
            self._newest = received.packet.seq
            packet, track = received.packet, received.track.name
            return Frame(
                outcome.data, packet.seq, packet.pts_us / 1e6, packet.command, packet.step, packet.keyframe, track,
                packet.meta, received.received_at,
            )  # fmt: skip
        if isinstance(error, ProtocolError):
            raise error
        self._reader.source.dropped += 1
        if received.packet.keyframe:
            self._failures += 1
            if self._failures == MOST_UNDECODED:
                raise ProtocolError(f"track {received.track.name}: {MOST_UNDECODED} keyframes could not be decoded: {error}")
        self._reader.resync()
        return None


class _Outcome(NamedTuple):
    """The result of decoding one packet."""

    received: Received
    data: NDArray[Any] | None = None
    passed: bool = False
    error: DecodeError | ProtocolError | None = None


class _DecodeQueue:
    """One consumer's decoder. A call decodes the waiting packets on the calling thread."""

    def __init__(self, latest: bool) -> None:
        self.waiting: deque[Received] = deque()
        self.outcomes: deque[_Outcome] = deque()
        self._latest = latest
        self._track: TrackInfo | None = None
        self._decoder: Decoder | None = None
        # asyncio can cancel the task that waits for the thread; the next call may come while the thread still runs.
        self._one_at_a_time = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a thread decodes now."""
        return self._one_at_a_time.locked()

    def __call__(self) -> None:
        with self._one_at_a_time:
            while self.waiting:
                received = self.waiting.popleft()
                self.outcomes.append(self._decode(received, give=not (self._latest and self.waiting)))

    def _decode(self, received: Received, give: bool) -> _Outcome:
        try:
            if received.track is not self._track:
                self._track, self._decoder = received.track, None
            if self._decoder is None:
                if not received.packet.keyframe:
                    return _Outcome(received, error=DecodeError("it depends on packets that are missing"))
                self._decoder = make_decoder(received.track)
            blocks = self._decoder.decode(received.packet, give)
        except DecodeError as error:
            self._decoder = None
            return _Outcome(received, error=error)
        except ProtocolError as error:
            return _Outcome(received, error=error)
        return _Outcome(received, blocks[-1] if blocks else None, passed=not give)


class MessageStream:
    """The async iterator of `Client.messages()`. It needs no close."""

    def __init__(self, reader: Reader[Message]) -> None:
        self._reader = reader

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Message:
        return await self._reader.get()
