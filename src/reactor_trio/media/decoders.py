"""From the payload of a packet that a client sent to what the model reads; bounded before anything is decoded.

Each packet names its codec, so a client may change it, or the size, from one frame to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg

from reactor_trio.interface.tracks import TrackSpec

#: pixels of a side of an input picture
MAX_SIDE = 4096


class Undecodable(Exception):
    """The payload is not what its packet says, or not what the track takes; the text is for the client."""


def decode_input(spec: TrackSpec, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[Any]:
    """What the model reads: a picture `(H, W, 3)` uint8 RGB or sound `(1, M)` int16, an array of its own.

    A JPEG of 640x480 takes about 1 ms, so not for a loop. Raises Undecodable.
    """
    codec = meta.get("codec")
    if spec.kind == "audio":
        if codec != "pcm_s16le":
            raise Undecodable(f"codec: expected pcm_s16le, got {codec!r:.40}")
        return _sound(spec, meta, payload)
    if codec == "jpeg":
        return _jpeg(payload)
    if codec == "raw":
        return _raw(meta, payload)
    raise Undecodable(f"codec: expected jpeg or raw, got {codec!r:.40}")


def _sound(spec: TrackSpec, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[np.int16]:
    rate = meta.get("sample_rate", spec.sample_rate)
    if rate != spec.sample_rate:
        raise Undecodable(f"sample_rate: expected {spec.sample_rate}, got {rate!r:.40}")
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
        height, width, *_ = simplejpeg.decode_jpeg_header(payload)
        _check_size(width, height)
        picture: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(payload, colorspace="RGB")
    except ValueError as error:
        raise Undecodable(f"not a JPEG picture: {error}") from None
    return picture


def _check_size(width: int, height: int) -> None:
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise Undecodable(f"expected a picture of at most {MAX_SIDE}x{MAX_SIDE}, got {width}x{height}"[:100])
