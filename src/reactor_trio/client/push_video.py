"""Pictures on the way to the model as H.264, VP8 or VP9: a tenth of the bytes of JPEG, by PyAV's encoders.

One packet out for each picture in, without delay. Each picture refers to the one that was encoded before it, so whatever is
encoded and then not sent has to be followed by a keyframe.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: bits a second for each pixel of the picture; at 1280x720 that is 3.3 Mbit/s
BITS_PER_PIXEL = 3.6
#: the rate for which the bitrate is shared out; more pictures make it more
FPS = 30

_ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": (
        "libx264",
        {"preset": "superfast", "tune": "zerolatency", "profile": "baseline", "forced-idr": "1", "sc_threshold": "0"},
    ),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "12", "lag-in-frames": "0"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
}
CODECS = tuple(_ENCODERS)


class StreamEncoder:
    """Encodes pictures of one size; an odd one is padded at its right and bottom, where its edge is repeated."""

    def __init__(self, codec: str, width: int, height: int) -> None:
        import av
        from av.video.frame import PictureType

        self.codec = codec
        self.size = width, height
        self._key, self._any = PictureType.I, PictureType.NONE
        self._frame = av.VideoFrame
        name, options = _ENCODERS[codec]
        context = av.CodecContext.create(name, "w")
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height = width + width % 2, height + height % 2
        context.pix_fmt = "yuv420p"
        context.time_base = Fraction(1, 1_000_000)
        context.framerate = Fraction(FPS)
        context.bit_rate = round(width * height * BITS_PER_PIXEL)
        context.gop_size = 1 << 20  # keyframes when they are wanted
        context.max_b_frames = 0
        context.thread_count = 1
        context.options = options
        self._context: Any = context
        self._last_pts = -1
        # asyncio can cancel the task that waits for a thread, and the next picture comes while it still runs
        self._one_at_a_time = threading.Lock()

    def encode(self, picture: NDArray[np.uint8], pts: float, keyframe: bool) -> tuple[bytes, bool]:
        """The packet of `picture`, and whether it is a keyframe, as the first is. `pts` in seconds."""
        with self._one_at_a_time:
            height, width = picture.shape[:2]
            if width % 2 or height % 2:
                picture = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
            frame = self._frame.from_ndarray(np.ascontiguousarray(picture), "rgb24").reformat(format="yuv420p")
            self._last_pts = frame.pts = max(round(pts * 1e6), self._last_pts + 1)
            frame.time_base = self._context.time_base
            frame.pict_type = self._key if keyframe else self._any
            (packet,) = self._context.encode(frame)
            return bytes(packet), bool(packet.is_keyframe)
