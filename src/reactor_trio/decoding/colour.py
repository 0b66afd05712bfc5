"""Conversion of decoded planes to RGB, by the colour matrix of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reactor_trio.decoding.opencv import opencv

if TYPE_CHECKING:
    import av
    from numpy.typing import NDArray

#: FFmpeg's number of a matrix -> its name in WebCodecs; all other numbers count as smpte170m
_NAMED = {1: "bt709"}
_JPEG_RANGE = 2


def to_rgb(frame: av.VideoFrame, matrix: str | None = None, full_range: bool | None = None) -> NDArray[np.uint8]:
    """Return the picture as `(H, W, 3)` uint8 in row order. `matrix` and `full_range` override the frame's own values."""
    if frame.format.name == "gbrp":
        return np.asarray(frame.to_ndarray(), np.uint8)  # PyAV puts the planes into the order red, green, blue
    if full_range is None:
        full_range = frame.format.name.startswith("yuvj") or frame.color_range == _JPEG_RANGE
    if matrix is None:
        matrix = _NAMED.get(frame.colorspace, "smpte170m")
    even = frame.width % 2 == 0 and frame.height % 2 == 0
    quick = frame.format.name == "yuv420p" and even and matrix in ("smpte170m", "bt470bg") and not full_range
    if quick and (cv2 := opencv()) is not None:
        return np.asarray(cv2.cvtColor(frame.to_ndarray(), cv2.COLOR_YUV2RGB_I420), np.uint8)
    from av.video.reformatter import ColorRange, Colorspace

    rgb = frame.reformat(
        format="rgb24",
        src_colorspace=Colorspace.ITU709 if matrix == "bt709" else Colorspace.ITU601,
        src_color_range=ColorRange.JPEG if full_range else ColorRange.MPEG,
        dst_color_range=ColorRange.JPEG,
    )
    return np.ascontiguousarray(rgb.to_ndarray())
