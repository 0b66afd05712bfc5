"""Conversion of RGB arrays into the pictures that codecs take: scaled, padded to even sizes, in YUV 4:2:0.

The colours are BT.601 with limited range, which OpenCV, FFmpeg and a `smpte170m` tag all mean. Each conversion overwrites
the buffer of the previous one. That is safe because an encoder that returns one packet per picture has read the picture by
then.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reactor_trio.decoding import INSTALL
from reactor_trio.decoding.opencv import opencv

if TYPE_CHECKING:
    import av

log = logging.getLogger("reactor_trio.media")

Array = npt.NDArray[Any]
Size = tuple[int, int]


def scaled_size(width: int, height: int, scale: float) -> Size:
    """The size of a picture at `scale`: even numbers of at least 2; at scale 1 the size itself."""
    if scale >= 1:
        return width, height
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def coded_size(size: Size, least: int) -> Size:
    """The size at which a codec with halved chroma codes a picture: even numbers of at least `least`."""
    return max(least, size[0] + size[0] % 2), max(least, size[1] + size[1] % 2)


def scaled(array: Array, size: Size) -> Array:
    """Scale an RGB picture to `size` (width, height): OpenCV averages pixels; without OpenCV the nearest pixel is taken."""
    height, width = array.shape[:2]
    if (width, height) == size:
        return array
    if (cv2 := opencv()) is not None:
        small: Array = cv2.resize(array, size, interpolation=cv2.INTER_AREA)
        return small
    rows = (np.arange(size[1]) * 2 + 1) * height // (2 * size[1])
    columns = (np.arange(size[0]) * 2 + 1) * width // (2 * size[0])
    return np.ascontiguousarray(array[rows[:, None], columns])


class Converter:
    """Converts RGB pictures to YUV 4:2:0 of one size.

    Args:
        size: width and height of the picture.
        coded: width and height that the codec gets. The last row and column of the picture fill the rest.
    """

    def __init__(self, size: Size, coded: Size) -> None:
        self.size, self.coded = size, coded
        width, height = coded
        self._padded = None if size == coded else np.empty((height, width, 3), np.uint8)
        self._yuv = np.empty((height * 3 // 2, width), np.uint8)
        self._opencv = opencv()
        if self._opencv is None:
            _warn_slow()

    def convert(self, array: Array) -> av.VideoFrame:
        """Convert an RGB array of any size. The next call overwrites the result."""
        import av

        rgb = self.pad(np.ascontiguousarray(scaled(array, self.size)))
        if (cv2 := self._opencv) is not None:
            cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420, dst=self._yuv)
            return i420_frame(self._yuv)
        from av.video.reformatter import ColorRange, Colorspace

        return av.VideoFrame.from_numpy_buffer(rgb, "rgb24").reformat(
            format="yuv420p", dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG
        )

    def pad(self, rgb: Array) -> Array:
        """Pad a picture of `size` to the coded size."""
        if self._padded is None:
            return rgb
        width, height = self.size
        self._padded[:height, :width] = rgb
        self._padded[:height, width:] = rgb[:, -1:]
        self._padded[height:] = self._padded[height - 1]
        return self._padded


def i420_frame(samples: Array) -> av.VideoFrame:
    """A picture of these samples, uint8 `(height * 3 / 2, width)`: Y, then U, then V. It may share their memory."""
    import av

    width, height = samples.shape[1], samples.shape[0] * 2 // 3
    if height % 4 == 0:
        return av.VideoFrame.from_numpy_buffer(samples, "yuv420p")
    # PyAV (18.1) assumes too few rows of such a buffer, and its `from_ndarray` takes five times as long as these copies.
    frame = av.VideoFrame(width, height, "yuv420p")
    flat, begin = samples.reshape(-1), 0
    for plane in frame.planes:
        end = begin + plane.width * plane.height
        rows = np.asarray(memoryview(plane)).reshape(plane.height, plane.line_size)
        rows[:, : plane.width] = flat[begin:end].reshape(plane.height, plane.width)
        begin = end
    return frame


@cache
def _warn_slow() -> None:
    """Warn once per process."""
    log.warning("RGB is converted to YUV by FFmpeg, which takes three times as long as OpenCV: %s", INSTALL)
