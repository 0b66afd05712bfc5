"""Decoder of Opus packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reactor_trio.decoding.video import DecodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: the sample rate in Hz to which Opus always decodes
SAMPLE_RATE = 48_000


class OpusDecoder:
    """Decodes one mono stream. Not thread-safe."""

    def __init__(self) -> None:
        import av

        self._errors = av.error.FFmpegError
        self._packet = av.Packet
        context = av.CodecContext.create("opus", "r")
        assert isinstance(context, av.AudioCodecContext)
        context.thread_count = 1
        context.sample_rate = SAMPLE_RATE
        context.layout = "mono"
        self._context = context

    def decode(self, payload: memoryview) -> NDArray[np.int16]:
        """Return the samples of one packet, `(1, M)` int16 at 48 kHz. Raises DecodeError."""
        if payload.nbytes == 0:
            raise DecodeError("an empty packet")
        try:
            frames: list[Any] = self._context.decode(self._packet(bytes(payload)))
        except (self._errors, MemoryError) as error:
            raise DecodeError(getattr(error, "strerror", None) or type(error).__name__) from None
        blocks = [frame.to_ndarray()[:1] for frame in frames]
        if not blocks:
            return np.zeros((1, 0), np.int16)
        samples = np.concatenate(blocks, axis=1)
        if samples.dtype != np.int16:
            samples = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
        return samples
