"""Encoding of pushed pictures as H.264, VP8 or VP9 with PyAV: a tenth of the bytes of JPEG.

Each picture gives one packet, without delay. Each packet depends on the one before it, so an encoded packet that is not sent
requires a keyframe next.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: target bits per second for each pixel of a picture: 3.3 Mbit/s at 1280x720
BITS_PER_PIXEL = 3.6
#: frame rate for which the encoder plans the bitrate; more pictures per second need more bits
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


class PushEncoder:
    """Encodes pictures of one size. An odd width or height is padded at the right or bottom by repeating the edge."""

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
        context.gop_size = 1 << 20  # keyframes only on request
        context.max_b_frames = 0
        context.thread_count = 1
        context.options = options
        self._context: Any = context
        self._last_pts = -1
        # asyncio can cancel the task that waits for the thread; the next picture may come while the thread still runs.
        self._one_at_a_time = threading.Lock()

    def encode(self, picture: NDArray[np.uint8], pts: float, keyframe: bool) -> tuple[bytes, bool]:
        """Return the packet of `picture`, and whether it is a keyframe. The first always is. `pts` is in seconds."""
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
