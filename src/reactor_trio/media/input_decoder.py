"""From the payload of a client's packet to what the model reads. Sizes are checked before anything is decoded.

Each packet names its codec, so a client may change the codec or the size with any frame. A packet of a codec with inter
frames is useful only after the packets before it. If one is missing or damaged, nothing is decoded until the next keyframe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reactor_trio.decoding import INSTALL, DecodeError, VideoDecoder, available, decode_jpeg
from reactor_trio.interface.tracks import TrackSpec

#: the longest side of an input picture, in pixels
MAX_SIDE = 4096
#: codecs with inter frames that an input track takes if PyAV is installed
STREAMS = ("h264", "vp8", "vp9")


class Undecodable(Exception):
    """The payload does not match its packet's `meta`, or the track does not take it. The text is meant for the client."""


def input_codecs(kind: str) -> tuple[str, ...]:
    """The codecs that an input track of this kind takes in this installation, best first."""
    if kind == "audio":
        return ("pcm_s16le",)
    return (*(STREAMS if available() else ()), "jpeg", "raw")


class InputDecoder:
    """Decodes the packets of one input track in order, one at a time."""

    def __init__(self, spec: TrackSpec) -> None:
        self._spec = spec
        self._stream: VideoDecoder | None = None
        self._made_for: tuple[object, ...] = ()

    def wants(self, meta: Mapping[str, Any], keyframe: bool) -> bool:
        """Whether the packet can be decoded; if not, a keyframe is missing."""
        return keyframe or meta.get("codec") not in STREAMS or (self._stream is not None and self._fits(meta))

    def lose(self) -> None:
        """Forget the stream, because a packet of it was dropped."""
        self._stream = None

    def decode(self, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[Any]:
        """Decode a picture to `(H, W, 3)` uint8 RGB, or sound to `(1, M)` int16, in a new array.

        A JPEG of 640x480 takes about 1 ms, so do not call this on an event loop. Raises Undecodable; a codec with inter
        frames then needs a keyframe.
        """
        codec = meta.get("codec")
        if self._spec.kind == "audio":
            if codec != "pcm_s16le":
                raise Undecodable(f"codec: expected pcm_s16le, got {_shown(codec)}")
            return _sound(self._spec, meta, payload)
        if codec in STREAMS:
            return self._next_of_stream(meta, payload)
        self._stream = None
        if codec == "jpeg":
            return _jpeg(payload)
        if codec == "raw":
            return _raw(meta, payload)
        raise Undecodable(f"codec: expected one of {', '.join(input_codecs('video'))}, got {_shown(codec)}")

    def _fits(self, meta: Mapping[str, Any]) -> bool:
        return self._made_for == (meta.get("codec"), *_colour(meta))

    def _next_of_stream(self, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[np.uint8]:
        codec, (matrix, full_range) = meta["codec"], _colour(meta)
        if not available():
            raise Undecodable(f"codec: {codec} needs PyAV on the server, {INSTALL}")
        if self._stream is None or not self._fits(meta):
            self._stream = VideoDecoder(codec, max_side=MAX_SIDE, matrix=matrix, full_range=full_range)
            self._made_for = codec, matrix, full_range
        try:
            pictures = self._stream.decode(payload)
            if not pictures:
                raise DecodeError("it gives no picture; an encoder must not hold pictures back")
            return _cropped(pictures[-1], meta)
        except (DecodeError, Undecodable) as error:
            self._stream = None
            raise Undecodable(f"not a packet of {codec}: {error}") from None


def _colour(meta: Mapping[str, Any]) -> tuple[str | None, bool | None]:
    """The matrix and the range of the colours, each None if the client does not name it."""
    matrix, full_range = meta.get("matrix"), meta.get("full_range")
    return matrix if isinstance(matrix, str) else None, full_range if isinstance(full_range, bool) else None


def _cropped(picture: npt.NDArray[np.uint8], meta: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
    width, height = meta.get("width", picture.shape[1]), meta.get("height", picture.shape[0])
    if type(width) is not int or type(height) is not int:
        raise Undecodable("width and height: expected numbers")
    if not (1 <= width <= picture.shape[1] and 1 <= height <= picture.shape[0]):
        raise Undecodable(f"expected a picture of {width}x{height}, got {picture.shape[1]}x{picture.shape[0]}"[:100])
    return np.ascontiguousarray(picture[:height, :width])


def _sound(spec: TrackSpec, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[np.int16]:
    rate = meta.get("sample_rate", spec.sample_rate)
    if rate != spec.sample_rate:
        raise Undecodable(f"sample_rate: expected {spec.sample_rate}, got {_shown(rate)}")
    if payload.nbytes == 0 or payload.nbytes % 2:
        raise Undecodable(f"expected 16-bit samples, got {payload.nbytes} bytes")
    return np.frombuffer(payload, "<i2").astype(np.int16).reshape(1, -1)


def _raw(meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[np.uint8]:
    width, height = meta.get("width"), meta.get("height")
    if type(width) is not int or type(height) is not int:
        raise Undecodable("a raw picture needs width and height")
    _check_size(width, height)
    if payload.nbytes != width * height * 3:
        raise Undecodable(f"a raw picture of {width}x{height} has {width * height * 3} bytes, got {payload.nbytes}")
    return np.frombuffer(payload, np.uint8).reshape(height, width, 3).copy()


def _jpeg(payload: memoryview) -> npt.NDArray[np.uint8]:
    try:
        return decode_jpeg(payload, MAX_SIDE)
    except ValueError as error:
        raise Undecodable(str(error)) from None


def _shown(value: object) -> str:
    """A value of `meta` for an error text. A nested value is named by type only: it may be deeper than `repr` can follow."""
    return f"{value!r:.40}" if isinstance(value, (str, int, float, bool)) or value is None else f"a {type(value).__name__}"


def _check_size(width: int, height: int) -> None:
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise Undecodable(f"expected a picture of at most {MAX_SIDE}x{MAX_SIDE}, got {width}x{height}"[:100])
