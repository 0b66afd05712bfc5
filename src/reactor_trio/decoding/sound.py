"""Decoder of Opus packets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reactor_trio.decoding.video import FFmpegDecoder

#: the sample rate in Hz to which Opus always decodes
SAMPLE_RATE = 48_000


class OpusDecoder(FFmpegDecoder):
    """Decodes one mono stream. Not thread-safe."""

    def __init__(self) -> None:
        super().__init__("opus")
        self._context.sample_rate = SAMPLE_RATE
        self._context.layout = "mono"

    def decode(self, payload: memoryview) -> NDArray[np.int16]:
        """Return the samples of one packet, `(1, M)` int16 at 48 kHz. Raises DecodeError."""
        blocks = self._decode(payload, lambda frame: frame.to_ndarray()[:1])
        samples = np.concatenate(blocks, axis=1) if blocks else np.zeros((1, 0), np.int16)
        if samples.dtype != np.int16:
            samples = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
        return samples
