"""What a consumer iterates over; a frame is decoded in the task that takes it, so that a dropped one costs nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from reactor_trio.client.broadcast import Reader
from reactor_trio.client.conversation import Message, Received
from reactor_trio.client.decoders import Decoder, make_decoder
from reactor_trio.protocol import TrackInfo


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One decoded frame.

    Attributes:
        data: a picture `(H, W, 3)` uint8 RGB, or sound `(1, M)` int16. Not to be written to: it may be a view.
        seq: the track's frames counted from 0 as the model made them; a gap is a dropped frame.
        pts: presentation time in seconds since the session began.
        command_id: the controlling client's newest command that it was made with, or None.
        step: the model step that made it, from 0.
        keyframe: whether it could be decoded without an earlier one.
        track: name of its track.
        meta: further facts from the server.
        received_at: when it arrived here, on the clock of `anyio.current_time()`.
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


class FrameStream:
    """The async iterator of `Client.frames()`; for one task at a time. Dropping it is enough to end it."""

    def __init__(self, reader: Reader[Received]) -> None:
        self._reader = reader
        self._track: TrackInfo | None = None
        self._decoder: Decoder
        self._decoded: deque[Frame] = deque()

    def __aiter__(self) -> FrameStream:
        return self

    async def __anext__(self) -> Frame:
        while not self._decoded:
            received = await self._reader.get()
            packet = received.packet
            if received.track is not self._track:
                self._decoder, self._track = make_decoder(received.track), received.track
            self._decoded.extend(
                Frame(
                    data,
                    packet.seq,
                    packet.pts_us / 1e6,
                    packet.command,
                    packet.step,
                    packet.keyframe,
                    received.track.name,
                    packet.meta,
                    received.received_at,
                )
                for data in self._decoder.decode(packet.payload, packet.flags)
            )
        return self._decoded.popleft()


class MessageStream:
    """The async iterator of `Client.messages()`. Dropping it is enough to end it."""

    def __init__(self, reader: Reader[Message]) -> None:
        self._reader = reader

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Message:
        return await self._reader.get()
