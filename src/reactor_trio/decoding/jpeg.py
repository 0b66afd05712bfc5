"""JPEG pictures, with a bound on what decoding one may cost.

The time that a JPEG takes is its pixels times its scans, and a file may have 60 000 scans in 1 MB. So scans are counted, and
the size is checked, before anything is decoded. Arithmetic coding is refused: it takes several times as long, and no browser
and no camera writes it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: scans of a picture; a progressive one from a usual encoder has about 10
MOST_SCANS = 100
#: segments before the one that begins the frame; a file with a colour profile and metadata has about 20
MOST_SEGMENTS = 1000

_MARKER = re.compile(rb"\xff+([\x01-\xfe])")
_SCAN = re.compile(rb"\xff\xda")
#: the frames that are decoded: baseline, extended and progressive, all of them with Huffman coding
_FRAMES = (0xC0, 0xC1, 0xC2)
_OTHER_FRAMES = (0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD9))


def decode_jpeg(payload: memoryview, max_side: int) -> NDArray[np.uint8]:
    """Decode a JPEG file to `(H, W, 3)` uint8 RGB, in a new array.

    Raises ValueError, whose text begins with what was expected: also for a picture that is wider or higher than `max_side`
    pixels, that has more than `MOST_SCANS` scans, or whose coding is not Huffman's.
    """
    import simplejpeg

    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(payload)
    except ValueError as error:
        raise ValueError(f"not a JPEG picture: {error}") from None
    if not (1 <= width <= max_side and 1 <= height <= max_side):
        raise ValueError(f"expected a picture of at most {max_side}x{max_side}, got {width}x{height}")
    frame_at = _find_frame(payload)
    if next(islice(_SCAN.finditer(payload, frame_at), MOST_SCANS, None), None) is not None:
        raise ValueError(f"expected a JPEG picture of at most {MOST_SCANS} scans, got more")
    try:
        picture: NDArray[np.uint8] = simplejpeg.decode_jpeg(payload, colorspace="RGB")
    except ValueError as error:
        raise ValueError(f"not a JPEG picture: {error}") from None
    return picture


def _find_frame(payload: memoryview) -> int:
    """Return where the frame's segment begins. Raises ValueError, also if the frame is of a kind that is not decoded."""
    at = 2
    for _ in range(MOST_SEGMENTS):
        found = _MARKER.match(payload, at)
        if found is None:
            break
        marker, at = found[1][0], found.end()
        if marker in _FRAMES:
            return at
        if marker in _OTHER_FRAMES:
            raise ValueError("expected a JPEG picture with Huffman coding, baseline or progressive")
        if marker not in _WITHOUT_LENGTH:
            at += int.from_bytes(payload[at : at + 2], "big")
    raise ValueError("not a JPEG picture: its frame was not found")
