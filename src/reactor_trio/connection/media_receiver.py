"""Media from one client: the receiver checks each binary message when it comes, decodes it off the loop and delivers it.

Pictures are decoded in order. `take` never waits, so a disconnect is noticed while a picture is decoded; if too many
pictures wait, the oldest are dropped and counted. Sound costs nothing to decode and is delivered at once, so that a burst of
pictures costs no samples.

A packet that cannot be used changes nothing. The client gets one error a second and track, since it may send thousands. In
a codec between frames, the packets after such a packet, or after one that was dropped here, are useless until the next
keyframe; the receiver asks the client for one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import trio

from reactor_trio.concurrency.newest_items import send_newest
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Overrun, Undecodable
from reactor_trio.media.input_decoder import STREAMS
from reactor_trio.protocol import KEYFRAME_REQUEST_FLOOR, Packet, decode_client_packet

log = logging.getLogger("reactor_trio.connection")

#: pictures that may wait to be decoded
WAITING = 8
#: seconds between two errors for one track
ERROR_PAUSE = 1.0

#: takes the name of a track, and a frame of it
Deliver = Callable[[str, InputFrame], None]

_MAX_PTS_US = 2**53  # what a float holds exactly


class MediaReceiver:
    """Receives the media of one client.

    Args:
        say: sends the client a text message: type, data.
    """

    def __init__(self, context: SenderContext, say: Callable[[str, Any], None]) -> None:
        self._tracks = {index: track for index, track in enumerate(context.tracks) if track.direction == "in"}
        self._context = context
        self._say = say
        self._decoders = {index: InputDecoder(track) for index, track in self._tracks.items()}
        self._gaps: set[int] = set()
        self._to_decode, self._waiting = trio.open_memory_channel[tuple[TrackSpec, Packet, Deliver]](WAITING)
        #: what the codec pool knows this client by; not `self`, which a decoder that hangs must not keep
        self._client = object()
        #: when a message of a type was last sent about a track
        self._said: dict[tuple[str, int | None], float] = {}

    @property
    def open(self) -> bool:
        """Whether the model has input tracks."""
        return bool(self._tracks)

    def take(self, message: bytes, deliver: Deliver) -> None:
        """Take a binary message of the controlling client; `deliver` gets the track's name and the frame. Never waits."""
        index: int | None = None
        try:
            packet = decode_client_packet(message)
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
        try:
            lost = send_newest(self._to_decode, self._waiting, (spec, packet, deliver))
        except trio.BrokenResourceError:
            self._context.telemetry.dropped("input", "client_left", 1)
            return
        if lost is not None:
            self._gaps.add(lost[1].track)
            self._context.telemetry.dropped("input", "overflow", 1)

    def not_taken(self, code: str, message: str) -> None:
        """Count and refuse a binary message of a client that may not send any."""
        self._context.telemetry.dropped("input", "not_taken", 1)
        self._say_seldom("reactor.error", None, {"code": code, "message": message}, ERROR_PAUSE)

    async def run(self) -> None:
        """Task: decode and deliver until cancelled. A cancellation waits for the picture under way."""
        under_way = 0
        try:
            async for spec, packet, deliver in self._waiting:
                under_way = 1
                decoder = self._decoders[packet.track]
                if packet.track in self._gaps:  # the dropped packet was older than all that wait
                    self._gaps.remove(packet.track)
                    decoder.lose()
                if not decoder.wants(packet.meta, packet.keyframe):
                    self._context.telemetry.dropped("input", "no_keyframe", 1)
                    self._ask_keyframe(packet.track)
                    under_way = 0
                    continue
                codec = packet.meta.get("codec")
                try:
                    data = await self._context.codec_pool.decode(self._client, decoder, packet.meta, packet.payload)
                except (Undecodable, Overrun) as error:
                    if isinstance(error, Overrun):
                        log.error("%s: the %s decoder failed: %s", spec.name, codec, error)
                        self._decoders[packet.track] = InputDecoder(spec)
                    self._not_used(packet.track, f"track {spec.name}: {error}")
                    if codec in STREAMS:
                        self._ask_keyframe(packet.track)
                else:
                    deliver(spec.name, _frame(packet, data))
                under_way = 0
        finally:
            if left := self._waiting.statistics().current_buffer_used + under_way:
                self._context.telemetry.dropped("input", "client_left", left)
            self._waiting.close()

    def _ask_keyframe(self, index: int) -> None:
        self._say_seldom("reactor.keyframe", index, {"track": index}, KEYFRAME_REQUEST_FLOOR)

    def _not_used(self, index: int | None, message: str) -> None:
        self._context.telemetry.dropped("input", "refused", 1)
        message = f"a binary message was not used: {message}"
        self._say_seldom("reactor.error", index, {"code": "protocol_error", "message": message}, ERROR_PAUSE)

    def _say_seldom(self, type: str, index: int | None, data: dict[str, Any], floor: float) -> None:  # noqa: A002
        """Send a message about a track, unless one of this type was sent less than `floor` seconds ago."""
        now = trio.current_time()
        if now - self._said.get((type, index), -math.inf) >= floor:
            self._said[type, index] = now
            self._say(type, data)


def _frame(packet: Packet, data: npt.NDArray[Any]) -> InputFrame:
    metadata, captured = packet.meta.get("metadata"), packet.meta.get("capture_time_us")
    return InputFrame(
        data, packet.pts_us / 1e6, (metadata or None) if isinstance(metadata, bytes) else None,
        captured if isinstance(captured, int) else None,
    )  # fmt: skip
