"""The Opus encoder: packets of 20 ms at 48 kHz, whatever the length of the model's blocks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.encoders import Encoded, Encoder
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.protocol import TrackInfo

if TYPE_CHECKING:
    import av

RATE = 48_000
BITRATE = 64_000


class OpusEncoder(Encoder):
    """One channel at 64 kbit/s with low delay; other sample rates are resampled.

    The payload of a block consists of the packets that the block completes, one after the other, with their lengths in
    `meta["sizes"]`. Samples that do not fill a packet wait for the next block. `pts_shift_us` is the offset from the block's
    time to the sound of the first packet, or of the next packet if the block completes none. It is never positive, because
    of the samples that had waited and of the codec's own look-ahead.
    """

    codec = "opus"
    implementation = "libopus"

    def __init__(self, spec: TrackSpec) -> None:
        self._rate = spec.sample_rate or RATE
        self._taken = 0
        self._next: Fraction | None = None
        self._context: av.AudioCodecContext | None = None

    def encode(self, frame: FrameHandle) -> Encoded:
        """Encode an int16 block `(1, M)`."""
        import av

        if self._context is None:
            self._context = self._open()
        samples = np.ascontiguousarray(to_host(frame))
        block = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        block.sample_rate, block.pts, block.time_base = self._rate, self._taken, Fraction(1, self._rate)
        begin = Fraction(self._taken, self._rate)
        self._taken += samples.shape[1]
        packets = self._context.encode(block)
        if packets:
            times = [Fraction(packet.pts) * packet.time_base for packet in packets if packet.pts is not None]
            first, self._next = times[0], times[-1] + Fraction(1, 50)
        else:
            first = Fraction(-self._context.delay, RATE) if self._next is None else self._next
        payload = b"".join(bytes(packet) for packet in packets)
        meta = {"sizes": [packet.size for packet in packets]}
        return Encoded(memoryview(payload), True, None, meta, round((first - begin) * 1_000_000))

    def close(self) -> None:
        """Drop the samples that do not fill a packet."""
        self._context = None

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe the track; its rate is always 48 kHz."""
        return TrackInfo(index, spec.name, "audio", "out", self.codec, codec_string="opus", sample_rate=RATE)

    def _open(self) -> av.AudioCodecContext:
        import av

        context = av.CodecContext.create("libopus", "w")
        context.sample_rate, context.layout, context.format = RATE, "mono", "s16"
        context.bit_rate, context.time_base = BITRATE, Fraction(1, RATE)
        context.options = {"application": "lowdelay", "frame_duration": "20"}
        context.open()
        return context
