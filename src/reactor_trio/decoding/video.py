"""Pictures out of packets that refer to the packets before them; one packet in, one picture out, without delay.

FFmpeg conceals what it cannot read by guessing, and tells it in a flag. Nothing guessed is given out: a stream with a fault
is refused as a whole, and its decoder is of no use from there on. The next keyframe begins with a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reactor_trio.decoding.colour import to_rgb

if TYPE_CHECKING:
    import av
    from numpy.typing import NDArray

#: codec on the wire -> FFmpeg's decoder. `lossless` is H.264 in its RGB profile.
_DECODERS = {"h264": "h264", "lossless": "h264", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}


class DecodeError(Exception):
    """The packet is none of its codec, is damaged, or needs packets that are not there."""


class VideoDecoder:
    """Decodes one stream, which begins with a keyframe.

    Args:
        codec: `h264`, `lossless`, `vp8`, `vp9` or `av1`.
        max_side: pixels of a side; a larger picture is refused, where it says its size before memory is taken for it.
        matrix: of the colours, in WebCodecs' words; by default what the stream says, `smpte170m` if it says nothing.
        full_range: of the colours, likewise.

    Not to be used by two threads at once.
    """

    def __init__(
        self, codec: str, *, max_side: int = 8192, matrix: str | None = None, full_range: bool | None = None
    ) -> None:
        import av
        from av.codec.context import Flags

        self._max_side = max_side
        self._matrix = matrix
        self._full_range = full_range
        self._errors = av.error.FFmpegError
        self._packet = av.Packet
        name = _DECODERS[codec]
        context = av.CodecContext.create(name, "r")
        assert isinstance(context, av.VideoCodecContext)
        # Threads by frame hold pictures back, and hang the process when the decoder is let go of.
        context.thread_count = 1
        context.flags |= Flags.low_delay
        context.options = {"max_pixels": str(max_side * max_side), "err_detect": "explode"}
        if name == "libdav1d":
            context.options = {**context.options, "max_frame_delay": "1"}
        self._context: av.VideoCodecContext = context

    def decode(self, payload: memoryview, give: bool = True) -> list[NDArray[np.uint8]]:
        """The pictures that `payload` completes, `(H, W, 3)` uint8 RGB and ours; none if not `give`.

        Raises DecodeError; the decoder is then of no more use.
        """
        if payload.nbytes == 0:
            raise DecodeError("an empty packet")  # which would end the stream
        try:
            frames: list[Any] = self._context.decode(self._packet(bytes(payload)))
            for frame in frames:
                if frame.is_corrupt:
                    raise DecodeError("a damaged picture")
                if max(frame.width, frame.height) > self._max_side:
                    limit = f"{self._max_side}x{self._max_side}"
                    raise DecodeError(f"expected a picture of at most {limit}, got {frame.width}x{frame.height}")
            return [to_rgb(frame, self._matrix, self._full_range) for frame in frames] if give else []
        except (self._errors, MemoryError) as error:
            raise DecodeError(getattr(error, "strerror", None) or type(error).__name__) from None
