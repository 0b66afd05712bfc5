"""Encoded streams of numbered test pictures, for the tests of the page's player."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from av.video.frame import PictureType

from reactor_trio.media.scheduling import ordinary_scheduling

#: Colours of the patches, red, green, blue: saturated ones show a wrong matrix first.
COLOURS = [
    (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255), (200, 30, 60), (128, 128, 128),
]  # fmt: skip
BITS = 8

_LIBRARIES = {
    "h264": ("libx264", {"preset": "superfast", "tune": "zerolatency", "profile": "baseline", "crf": "12"}, "avc1.42E01F"),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "crf": "4", "b": "8M", "qmax": "8"}, "vp8"),  # noqa: E501
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "crf": "10", "b": "8M"}, "vp09.00.31.08"),  # noqa: E501
    "av1": ("libsvtav1", {"preset": "10", "svtav1-params": "pred-struct=1:lp=1", "crf": "10"}, "av01.0.05M.08"),
    "lossless": ("libx264rgb", {"preset": "ultrafast", "tune": "zerolatency", "qp": "0"}, "avc1.F4001F"),
}  # fmt: skip


def test_picture(number: int, width: int, height: int) -> np.ndarray:
    """Patches of `COLOURS` above, the bits of `number` in black and white below, most significant first."""
    image = np.empty((height, width, 3), np.uint8)
    half = height // 2
    for place, colour in enumerate(COLOURS):
        image[:half, place * width // 8 : (place + 1) * width // 8] = colour
    for place in range(BITS):
        bit = number >> (BITS - 1 - place) & 1
        image[half:, place * width // 8 : (place + 1) * width // 8] = 255 if bit else 0
    return image


test_picture.__test__ = False  # type: ignore[attr-defined]


def describe(codec: str, width: int, height: int, **more: Any) -> dict[str, Any]:
    """The codec entries of a track description for a stream of this codec."""
    color = {"matrix": "smpte170m", "primaries": "bt709", "transfer": "iec61966-2-1", "full_range": False}
    if codec == "lossless":
        color = {"matrix": "rgb", "primaries": "bt709", "transfer": "iec61966-2-1", "full_range": True}
    coded = {"coded_width": width + width % 2, "coded_height": height + height % 2} if width % 2 or height % 2 else {}
    return {
        "codec": codec, "codec_string": _LIBRARIES[codec][2], "width": width, "height": height, "color": color,
        **coded, **more,
    }  # fmt: skip


class Stream:
    """One encoder: a packet for each picture, a keyframe at first and when asked for. Odd sizes are padded."""

    def __init__(self, codec: str, width: int, height: int) -> None:
        library, options, _ = _LIBRARIES[codec]
        self.codec, self.size = codec, (width, height)
        self._made = 0
        self._context = av.CodecContext.create(library, "w")
        self._context.width, self._context.height = width + width % 2, height + height % 2  # type: ignore[attr-defined]
        self._context.pix_fmt = "rgb24" if codec == "lossless" else "yuv420p"  # type: ignore[attr-defined]
        self._context.time_base = Fraction(1, 1_000_000)
        self._context.framerate = Fraction(30)  # type: ignore[attr-defined]
        self._context.gop_size = 10_000  # type: ignore[attr-defined]
        self._context.thread_count = 1
        self._context.options = options
        with ordinary_scheduling():
            self._context.open()

    def encode(self, number: int, key: bool = False) -> tuple[bytes, bool]:
        """The packet of the test picture of this number, and whether it is a keyframe."""
        image = test_picture(number, *self.size)
        image = np.pad(image, ((0, image.shape[0] % 2), (0, image.shape[1] % 2), (0, 0)), "edge")
        if self.codec == "lossless":
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
        else:
            frame = av.VideoFrame.from_ndarray(cv2.cvtColor(image, cv2.COLOR_RGB2YUV_I420), "yuv420p")
        self._made += 1
        frame.pts = self._made * 33_333
        frame.pict_type = PictureType.I if key else PictureType.NONE
        (packet,) = self._context.encode(frame)
        return bytes(packet), packet.is_keyframe

    def packets(self, count: int, first: int = 0) -> Iterator[tuple[int, bytes, bool]]:
        """`count` of them: number, packet, keyframe."""
        for number in range(first, first + count):
            yield number, *self.encode(number)
