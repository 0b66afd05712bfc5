"""The JPEG encoder: at the declared quality, or at the quality that keeps to a bitrate."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import simplejpeg

from reactor_trio.media.bitrates import full_bitrate, jpeg_scale
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.conversion import scaled, scaled_size
from reactor_trio.media.encoders import Encoded, PictureEncoder
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.pacing import Quality

#: of a picture that is kept
KEPT_QUALITY = 85
#: below this quality, a smaller picture looks better
MIN_QUALITY = 20


class JpegQuality:
    """Chooses the quality that gives frames of a wanted size, from the sizes of earlier frames.

    The size falls with about the 0.6th power of the scale of the quantisation tables, so each frame shows how much detail
    its picture has. That is smoothed over some frames, and the quality changes only when the wanted one is two steps away.
    """

    POWER = 0.6
    SMOOTH = 0.3
    STEP = 2

    def __init__(self, declared: int) -> None:
        self._declared = declared
        self._min_quality = min(MIN_QUALITY, declared)
        self._content: float | None = None
        self.quality = declared

    def sent(self, pixels: int, size: int) -> None:
        """Record that a frame of `pixels` pixels was `size` bytes large at the present quality."""
        content = math.log(size / pixels) + self.POWER * math.log(jpeg_scale(self.quality))
        self._content = content if self._content is None else self._content + self.SMOOTH * (content - self._content)

    def aim(self, pixels: int, size: float | None) -> int:
        """Choose the quality at which the next frame has about `size` bytes; None: the declared quality."""
        wanted = float(self._declared)
        if size is not None and self._content is not None:
            scale = math.exp((self._content - math.log(size / pixels)) / self.POWER)
            wanted = (200 - scale) / 2 if scale < 100 else 5000 / scale
        wanted = min(max(wanted, self._min_quality), self._declared)
        if abs(wanted - self.quality) >= self.STEP or wanted in (self._min_quality, self._declared):
            self.quality = round(wanted)
        return self.quality


class JpegEncoder(PictureEncoder):
    """Baseline JPEG, 4:2:0, full-range BT.601 YCbCr as JFIF defines it."""

    codec = "jpeg"
    implementation = "simplejpeg"
    pixel_format = "ycbcr420"

    def __init__(self, settings: CodecSettings) -> None:
        self._settings = settings
        self._target: Quality | None = None
        self._quality = JpegQuality(settings.jpeg_quality)

    def configure(self, target: Quality) -> None:
        """Aim at a target. From the bitrate of full quality on, the declared quality is used, whatever it takes."""
        self._target = target

    def encode(self, frame: FrameHandle) -> Encoded:
        """Encode a picture: about 0.7 ms for 640x480 and 2.1 ms for 1280x720 on one core."""
        array, target, wanted = to_host(frame), self._target, None
        height, width = array.shape[:2]
        if target is not None:
            width, height = scaled_size(width, height, target.scale)
            if target.bitrate < full_bitrate("jpeg", width, height, target.fps, self._settings):
                wanted = max(target.bitrate, 1.0) / target.fps / 8
            elif self._settings.bitrate is not None:
                wanted = self._settings.bitrate / target.fps / 8
        array = np.ascontiguousarray(scaled(array, (width, height)))
        quality = self._quality.aim(width * height, wanted)
        data = simplejpeg.encode_jpeg(array, quality=quality, colorspace="RGB", colorsubsampling="420")
        self._quality.sent(width * height, len(data))
        return Encoded(memoryview(data), True, (width, height))


def kept_jpeg(frame: FrameHandle) -> bytes:
    """A picture as a JPEG file that is kept, to be shown again."""
    array = np.ascontiguousarray(to_host(frame))
    jpeg: bytes = simplejpeg.encode_jpeg(array, quality=KEPT_QUALITY, colorspace="RGB", colorsubsampling="420")
    return jpeg


def picture_of(jpeg: bytes) -> npt.NDArray[np.uint8]:
    """The picture of a JPEG file that `kept_jpeg` has made."""
    picture: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(jpeg, colorspace="RGB")
    picture.flags.writeable = False
    return picture


def narrowed(width: int, jpeg: bytes) -> bytes:
    """A JPEG file of the same picture with at most this width."""
    array = picture_of(jpeg)
    height, whole = array.shape[:2]
    if whole <= width:
        return jpeg
    return kept_jpeg(scaled(array, (width, max(1, round(height * width / whole)))))
