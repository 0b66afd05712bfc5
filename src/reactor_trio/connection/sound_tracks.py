"""One viewer's sound: the encoder of each track, and the next one in its place if it fails; and the blocks that wait."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, Encoder, FrameHandle, Origin, open_encoder
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import KEYFRAME, Packet, TrackInfo, packet_head
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.connection")

#: blocks that may wait for a slow socket, some seconds of sound
AUDIO_BLOCKS = 128


class SoundTracks:
    """The audio track `spec`, with `index` on the wire.

    Args:
        codecs: what the viewer decodes, best first; at least one.
        settings: how frames are encoded.
        coders: run the encoder.
        changed: told what the viewer must know before the next packet.
        forsaken: called when nothing that the viewer decodes can be encoded any more.
    """

    def __init__(
        self,
        index: int,
        spec: TrackSpec,
        codecs: tuple[str, ...],
        settings: CodecSettings,
        codec_pool: CodecPool,
        changed: Callable[[TrackInfo], None],
        forsaken: Callable[[], None],
    ) -> None:
        self.index = index
        self.name = spec.name
        #: what the viewer has been told of the track
        self.info = TrackInfo(index, spec.name, "audio", "out", codecs[0], sample_rate=spec.sample_rate)
        self._spec = spec
        self._codecs = list(codecs)
        self._settings = settings
        self._codec_pool = codec_pool
        self._changed = changed
        self._forsaken = forsaken
        self._encoder: Encoder | None = None
        self._open()

    async def encode(self, frame: FrameHandle) -> Encoded | None:
        """The payload for a block; None if no codec is left that can encode it."""
        while self._encoder is not None:
            try:
                return await self._codec_pool.encode(self._encoder, frame)
            except Exception as error:  # whatever a codec says
                self._blame(self._encoder.implementation, error)
            self.close()
            self._open()
            if self._encoder is not None:
                self._changed(self.info)
        return None

    def close(self) -> None:
        """Nothing more is encoded."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self._codec_pool.close(encoder)

    def _open(self) -> None:
        while self._codecs:
            if self._codec_pool.hangs("encoder", self._codecs[0]):
                del self._codecs[0]
                continue
            try:
                encoder = open_encoder(self._spec, self._codecs[0], self._settings)
            except Exception as error:  # whatever a codec says
                self._blame("not opened", error)
                continue
            self._encoder, self.info = encoder, encoder.describe(self.index, self._spec, None)
            return
        self._forsaken()

    def _blame(self, implementation: str, error: Exception) -> None:
        log.error(
            "%s: the %s encoder (%s) failed and is not used again for this client: %s: %s",
            self._spec.name, self._codecs.pop(0), implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip


class _Block(msgspec.Struct, frozen=True):
    track: SoundTracks
    frame: FrameHandle
    seq: int
    pts: float
    origin: Origin


class SoundQueue:
    """The blocks of all tracks that wait for one viewer's socket, in order.

    Args:
        telemetry: counts and traces what happens.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._tracks: dict[str, SoundTracks] = {}
        self._blocks: deque[_Block] = deque()

    def add(self, track: SoundTracks) -> None:
        """The viewer hears this track."""
        self._tracks[track.name] = track

    @property
    def infos(self) -> list[TrackInfo]:
        """What the viewer has been told of each track."""
        return [track.info for track in self._tracks.values()]

    @property
    def waits(self) -> bool:
        """Whether a block waits."""
        return bool(self._blocks)

    def put(self, name: str, frame: FrameHandle, seq: int, pts: float, origin: Origin) -> None:
        """A block is played now; of a track that the viewer does not hear it is nothing."""
        if (track := self._tracks.get(name)) is None:
            return
        if len(self._blocks) >= AUDIO_BLOCKS:
            self._blocks.popleft()
            self._telemetry.dropped("lane", "audio_overflow", 1)
        self._blocks.append(_Block(track, frame, seq, pts, origin))

    async def encode_next(self) -> tuple[bytes, memoryview] | None:
        """Take the oldest block and encode it: head and payload; None if no codec is left that can."""
        block, began = self._blocks.popleft(), trio.current_time()
        encoded = await block.track.encode(block.frame)
        if encoded is None:
            return None
        self._telemetry.encoded(block.track.info.codec or "", trio.current_time() - began)
        origin, flags = block.origin, KEYFRAME if encoded.keyframe else 0
        head = packet_head(Packet(
            block.track.index, block.seq, max(0, round(block.pts * 1e6) + encoded.pts_shift_us), flags,
            origin.command, origin.step, dict(encoded.meta), encoded.payload,
        ))  # fmt: skip
        return head, encoded.payload

    def close(self) -> None:
        """The connection is over: what waits is dropped and counted, encoders let go."""
        if self._blocks:
            self._telemetry.dropped("lane", "client_left", len(self._blocks))
            self._blocks.clear()
        for track in self._tracks.values():
            track.close()
