"""Media from one client: each binary message is checked when it comes, decoded in order away from the loop, and handed on.

Intake never waits, so a disconnect is noticed while a picture is decoded; of pictures that wait for it the oldest are
dropped and counted. Sound costs nothing to decode and is handed on at once: a burst of pictures must not cost samples.

A packet that cannot be used changes nothing. The client is told once a second and track, since it may send thousands. Of a
codec between frames such a packet, and one that was dropped here, takes those after it along until the next keyframe, for
which the client is asked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Overrun, Undecodable
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.media.input_decoder import STREAMS
from reactor_trio.protocol import Packet, decode_packet
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.connection")

#: pictures that may wait to be decoded
WAITING = 8
#: seconds between two errors for one track
QUIET = 1.0
#: seconds between two requests for a keyframe of one track
KEYFRAME_FLOOR = 0.5

_MAX_PTS_US = 2**53  # what a float holds exactly


class MediaReceiver:
    """The way in of one client.

    Args:
        tracks: the model's tracks; their places are the indices on the wire.
        coders: run the decoders.
        telemetry: counts and traces what happens.
        refuse: tells the client that a packet was not used.
        ask: asks the client for a keyframe of the track of an index.
    """

    def __init__(
        self,
        tracks: tuple[TrackSpec, ...],
        codec_pool: CodecPool,
        telemetry: Telemetry,
        refuse: Callable[[str, str], None],
        ask: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._tracks = {index: track for index, track in enumerate(tracks) if track.direction == "in"}
        self._codec_pool = codec_pool
        self._telemetry = telemetry
        self._refuse = refuse
        self._ask = ask
        self._decoders = {index: InputDecoder(track) for index, track in self._tracks.items()}
        self._gaps: set[int] = set()
        self._asked: dict[int, float] = {}
        self._waiting: deque[tuple[TrackSpec, Packet, Callable[[str, InputFrame], None]]] = deque()
        self._wakeup = RepeatedEvent()
        self._told: dict[int | None, float] = {}

    @property
    def open(self) -> bool:
        """Whether the model has input tracks."""
        return bool(self._tracks)

    def take(self, message: bytes, deliver: Callable[[str, InputFrame], None]) -> None:
        """A binary message of the controlling client; `deliver` gets its frame, with the track's name. Never waits."""
        index: int | None = None
        try:
            packet = decode_packet(message)
            spec = self._tracks.get(packet.track)
            if spec is None:
                names = ", ".join(f"{index} ({track.name})" for index, track in self._tracks.items())
                raise Undecodable(f"track {packet.track} is no input track; this model has {names}")
            index = packet.track
            if not 0 <= packet.pts_us < _MAX_PTS_US:
                raise Undecodable("pts_us: expected microseconds, 0 or more")
            if spec.kind == "audio":
                deliver(spec.name, _frame(packet, self._decoders[index].decode(packet.meta, packet.payload)))
                return
        except (ProtocolError, Undecodable) as error:
            self._not_used(index, str(error))
            return
        self._waiting.append((spec, packet, deliver))
        if len(self._waiting) > WAITING:
            _, lost, _ = self._waiting.popleft()
            self._gaps.add(lost.track)
            self._telemetry.dropped("input", "overflow", 1)
        self._wakeup.set()

    def not_taken(self, code: str, message: str) -> None:
        """A binary message of a client that may not send any."""
        self._telemetry.dropped("input", "not_taken", 1)
        self._tell(None, code, message)

    async def run(self) -> None:
        """Decode and deliver for ever; cancelled when the connection goes, which waits for the picture under way."""
        under_way = 0
        try:
            while True:
                under_way = 0
                if not self._waiting:
                    await self._wakeup.wait()
                    continue
                under_way = 1
                spec, packet, deliver = self._waiting.popleft()
                decoder = self._decoders[packet.track]
                if packet.track in self._gaps:  # what was dropped lay before all that waits
                    self._gaps.remove(packet.track)
                    decoder.lose()
                if not decoder.wants(packet.meta, packet.keyframe):
                    self._telemetry.dropped("input", "no_keyframe", 1)
                    self._ask_keyframe(packet.track)
                    await trio.lowlevel.checkpoint()
                    continue
                codec = packet.meta.get("codec")
                try:
                    data = await self._codec_pool.decode(decoder, packet.meta, packet.payload)
                except (Undecodable, Overrun) as error:
                    if isinstance(error, Overrun):
                        log.error("%s: the %s decoder failed: %s", spec.name, codec, error)
                        self._decoders[packet.track] = InputDecoder(spec)
                    self._not_used(packet.track, f"track {spec.name}: {error}")
                    if codec in STREAMS:
                        self._ask_keyframe(packet.track)
                else:
                    deliver(spec.name, _frame(packet, data))
        finally:
            if left := len(self._waiting) + under_way:
                self._telemetry.dropped("input", "client_left", left)

    def _ask_keyframe(self, index: int) -> None:
        now = trio.current_time()
        if now - self._asked.get(index, -KEYFRAME_FLOOR) >= KEYFRAME_FLOOR:
            self._asked[index] = now
            self._ask(index)

    def _not_used(self, index: int | None, message: str) -> None:
        self._telemetry.dropped("input", "refused", 1)
        self._tell(index, "protocol_error", f"a binary message was not used: {message}")

    def _tell(self, index: int | None, code: str, message: str) -> None:
        now = trio.current_time()
        if now - self._told.get(index, -QUIET) >= QUIET:
            self._told[index] = now
            self._refuse(code, message)


def _frame(packet: Packet, data: npt.NDArray[Any]) -> InputFrame:
    return InputFrame(data, packet.pts_us / 1e6)
