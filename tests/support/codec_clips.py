"""Pictures for the tests of encoders, and third-party decoders."""

from __future__ import annotations

from collections.abc import Iterator

import av
import numpy as np

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Encoded, Encoder, open_encoder
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.pacing import Quality

VIDEO = TrackSpec("picture", "video")

#: what decodes each codec
DECODERS = {"h264": "h264", "lossless": "h264", "vp8": "libvpx", "vp9": "libvpx-vp9", "av1": "libdav1d"}


def grainy(width: int, height: int, seed: int = 7) -> Iterator[np.ndarray]:
    """A smooth moving pattern with grain that never repeats."""
    rng = np.random.default_rng(seed)
    y, x = np.ogrid[0:height, 0:width]  # waves go along one axis: their sum is what has all pixels
    number = 0
    while True:
        waves = [np.sin((x + 3 * number) / 19 + k) + np.cos((y + number) / (11 + 5 * k)) for k in range(3)]
        picture = 128 + 50 * np.stack(waves, axis=-1) + rng.normal(0, 9, (height, width, 1))
        yield np.clip(picture, 0, 255).astype(np.uint8)
        number += 1


def colour_bars(width: int, height: int) -> np.ndarray:
    """Saturated red, green, blue, yellow, cyan, magenta, white and black, side by side."""
    colours = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)], np.uint8)
    row = colours[np.arange(width) * 8 // width]
    return np.ascontiguousarray(np.broadcast_to(row, (height, width, 3)))


def opened(codec: str, target: Quality | None = None, settings: CodecSettings | None = None) -> Encoder:
    encoder = open_encoder(VIDEO, codec, settings or CodecSettings())
    if target is not None:
        encoder.configure(target)
    return encoder


class Decoder:
    """Decodes packet by packet and returns what each one yields at once."""

    def __init__(self, codec: str) -> None:
        self._context = av.CodecContext.create(DECODERS[codec], "r")
        self._context.thread_count = 1

    def frames(self, encoded: Encoded) -> list[av.VideoFrame]:
        return self._context.decode(av.Packet(bytes(encoded.payload)))

    def frame(self, encoded: Encoded) -> av.VideoFrame:
        (frame,) = self.frames(encoded)
        return frame

    def rgb(self, encoded: Encoded) -> np.ndarray:
        return rgb_of(self.frame(encoded))


def rgb_of(frame: av.VideoFrame) -> np.ndarray:
    """Convert a YUV picture with the colour that we tag: BT.601, limited range, nearest chroma samples. RGB stays RGB."""
    if frame.format.name == "gbrp":
        return frame.to_ndarray(format="rgb24")
    planes = frame.to_ndarray(format="yuv420p")
    height, width = frame.height, frame.width
    luma = (planes[:height].astype(float) - 16) * 255 / 219
    chroma = planes[height:].reshape(2, height // 2, width // 2).astype(float) - 128
    cb, cr = (plane.repeat(2, axis=0).repeat(2, axis=1) * 255 / 224 for plane in chroma)
    red, blue = luma + 1.402 * cr, luma + 1.772 * cb
    green = (luma - 0.299 * red - 0.114 * blue) / 0.587
    return np.clip(np.stack([red, green, blue], axis=-1), 0, 255).round().astype(np.uint8)


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(1e-9, ((one.astype(float) - other) ** 2).mean())))
