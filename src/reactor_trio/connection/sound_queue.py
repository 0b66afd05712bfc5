"""One viewer's sound: an encoder for each track, which the next codec replaces if it fails, and the blocks that wait."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from reactor_trio.concurrency.newest_items import send_newest
from reactor_trio.connection.outgoing_frames import DueFrame
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Encoded, Encoder, FrameHandle, open_encoder
from reactor_trio.protocol import KEYFRAME, TrackInfo, packet_head

log = logging.getLogger("reactor_trio.connection")

#: blocks that may wait for a slow socket, some seconds of sound
AUDIO_BLOCKS = 128


@dataclass(eq=False)
class SoundTrack:
    """One viewer's copy of the audio track `spec`, with `index` on the wire.

    Args:
        codecs: what the viewer decodes, best first; at least one.
        changed: called with what the viewer must know before the next packet.
        forsaken: called when no encoder is left for any codec that the viewer decodes.
    """

    index: int
    spec: TrackSpec
    codecs: tuple[str, ...]
    context: SenderContext
    changed: Callable[[TrackInfo], None]
    forsaken: Callable[[], None]

    def __post_init__(self) -> None:
        spec = self.spec
        #: the newest `reactor.track` that the viewer has
        self.info = TrackInfo(self.index, spec.name, "audio", "out", self.codecs[0], sample_rate=spec.sample_rate)
        self._untried = iter(self.codecs)
        self._encoder: Encoder | None = None
        self._open()

    async def encode(self, block: FrameHandle) -> Encoded | None:
        """The payload for a block; None if no codec is left that can encode it."""
        while self._encoder is not None:
            try:
                return await self.context.codec_pool.encode(self._encoder, block)
            except Exception as error:  # whatever a codec says
                self._blame(self._encoder.codec, self._encoder.implementation, error)
            self.close()
            self._open()
            if self._encoder is not None:
                self.changed(self.info)
        return None

    def close(self) -> None:
        """Let go of the encoder."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self.context.codec_pool.close(encoder)

    def _open(self) -> None:
        for codec in self._untried:
            if self.context.codec_pool.hangs("encoder", codec):
                continue
            try:
                self._encoder = open_encoder(self.spec, codec, self.context.codec)
            except Exception as error:  # whatever a codec says
                self._blame(codec, "not opened", error)
                continue
            self.info = self._encoder.describe(self.index, self.spec, None)
            return
        self.forsaken()

    def _blame(self, codec: str, implementation: str, error: Exception) -> None:
        log.error(
            "%s: the %s encoder (%s) failed and is not used again for this client: %s: %s",
            self.spec.name, codec, implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip


class SoundQueue:
    """The blocks of all tracks that wait for one viewer's socket, in order.

    Attributes:
        count: how many wait. An attribute, since each frame asks for it several times.
    """

    def __init__(self, context: SenderContext) -> None:
        self.tracks: dict[str, SoundTrack] = {}
        self._context = context
        self._to_send, self._blocks = trio.open_memory_channel[tuple[SoundTrack, DueFrame]](AUDIO_BLOCKS)
        self.count = 0

    def put(self, name: str, block: DueFrame) -> None:
        """Queue a block that is played now, if the viewer hears its track; drop the oldest one if too many wait."""
        if (track := self.tracks.get(name)) is None:
            return
        if send_newest(self._to_send, self._blocks, (track, block)) is None:
            self.count += 1
        else:
            self._context.telemetry.dropped("lane", "audio_overflow", 1)

    async def encode_next(self) -> tuple[bytes, memoryview] | None:
        """Take the oldest block and encode it: head and payload; None if no codec is left that can."""
        (track, block), began = self._blocks.receive_nowait(), trio.current_time()
        self.count -= 1
        encoded = await track.encode(block.frame)
        if encoded is None:
            return None
        self._context.telemetry.encoded(track.info.codec or "", trio.current_time() - began)
        origin, pts_us = block.origin, max(0, round(block.pts * 1e6) + encoded.pts_shift_us)
        head = packet_head(
            track.index, block.seq, pts_us, KEYFRAME if encoded.keyframe else 0,
            origin.command, origin.step, dict(encoded.meta), encoded.payload,
        )  # fmt: skip
        return head, encoded.payload

    def close(self) -> None:
        """Drop and count what waits, and let go of the encoders."""
        if self.count:
            self._context.telemetry.dropped("lane", "client_left", self.count)
        self._blocks.close()
        self.count = 0
        for track in self.tracks.values():
            track.close()
        self.tracks.clear()  # their callbacks are the sender's, which has this queue
