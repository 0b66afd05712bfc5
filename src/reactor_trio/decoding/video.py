"""Decoder of inter-frame video: one packet in, one picture out, without delay.

FFmpeg conceals damage: it guesses the lost pixels and sets a flag on the picture. This decoder never returns a guessed
picture. It raises an error instead and is unusable from then on; the caller makes a new one for the next keyframe.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from reactor_trio.decoding.colour import to_rgb

if TYPE_CHECKING:
    import av
    from numpy.typing import NDArray

T = TypeVar("T")

#: codec on the wire -> FFmpeg's decoder. `lossless` is H.264 in its RGB profile.
_DECODERS = {"h264": "h264", "lossless": "h264", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}


#: NAL units in a packet of H.264. A picture has at most some hundred slices. FFmpeg keeps 4 KiB for each unit, also for an
#: empty one of 4 bytes, so a packet of 4 MiB could take 3.5 GB.
MOST_UNITS = 1024

_UNIT = re.compile(rb"\x00\x00\x01")


class DecodeError(Exception):
    """The packet is not of the decoder's codec, is damaged, or needs packets that the decoder did not get."""


class FFmpegDecoder:
    """Base class of the decoders: it owns the codec context and turns every failure into a DecodeError."""

    def __init__(self, name: str) -> None:
        import av

        self._errors = (av.error.FFmpegError, MemoryError)
        self._packet = av.Packet
        self._context: Any = av.CodecContext.create(name, "r")
        # Frame threads delay pictures, and hang the process when the decoder is freed.
        self._context.thread_count = 1

    def _decode(self, payload: memoryview, convert: Callable[[Any], T]) -> list[T]:
        """Convert each frame that `payload` completes. Raises DecodeError, also for FFmpeg's errors in `convert`."""
        if payload.nbytes == 0:
            raise DecodeError("an empty packet")  # FFmpeg takes an empty packet for the end of the stream
        try:
            return [convert(frame) for frame in self._context.decode(self._packet(bytes(payload)))]
        except self._errors as error:
            raise DecodeError(getattr(error, "strerror", None) or type(error).__name__) from None


class VideoDecoder(FFmpegDecoder):
    """Decodes one stream, which must begin with a keyframe. Not thread-safe.

    Args:
        codec: `h264`, `lossless`, `vp8`, `vp9` or `av1`.
        max_side: largest width and height in pixels. FFmpeg refuses a larger picture before it allocates memory for it,
            where the stream states its size.
        matrix: the colour matrix, by its name in WebCodecs. Default: the stream's own, `smpte170m` if it states none.
        full_range: whether sample values use the full range. Default: the stream's own statement.
    """

    def __init__(
        self, codec: str, *, max_side: int = 8192, matrix: str | None = None, full_range: bool | None = None
    ) -> None:
        super().__init__(_DECODERS[codec])
        from av.codec.context import Flags

        self._counts_units = _DECODERS[codec] == "h264"
        self._max_side = max_side
        self._matrix = matrix
        self._full_range = full_range
        self._context.flags |= Flags.low_delay
        options = {"max_pixels": str(max_side * max_side), "err_detect": "explode"}
        self._context.options = options | ({"max_frame_delay": "1"} if codec == "av1" else {})

    def decode(self, payload: memoryview, give: bool = True) -> list[NDArray[np.uint8]]:
        """Return the pictures that `payload` completes, `(H, W, 3)` uint8 RGB, writable. Without `give` return none.

        Raises DecodeError. The decoder is then unusable.
        """
        if self._counts_units and next(islice(_UNIT.finditer(payload), MOST_UNITS, None), None) is not None:
            raise DecodeError(f"expected at most {MOST_UNITS} NAL units in a packet, got more")

        def picture(frame: av.VideoFrame) -> NDArray[np.uint8] | None:
            if frame.is_corrupt:
                raise DecodeError("a damaged picture")
            if max(frame.width, frame.height) > self._max_side:
                limit = f"{self._max_side}x{self._max_side}"
                raise DecodeError(f"expected a picture of at most {limit}, got {frame.width}x{frame.height}")
            return to_rgb(frame, self._matrix, self._full_range) if give else None

        return [found for found in self._decode(payload, picture) if found is not None]
