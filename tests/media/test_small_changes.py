"""No encoder postpones a change: a block that turns white or black does so in that very frame."""

from __future__ import annotations

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, full_bitrate, open_encoder
from reactor_trio.pacing import Quality

DECODERS = {"h264": "h264", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}


def numbered(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Colours in the upper part, the eight bits of `number` in black and white below."""
    picture = np.empty((height, width, 3), np.uint8)
    for place in range(8):
        column = slice(place * width // 8, (place + 1) * width // 8)
        picture[: height // 2, column] = (255 * (place & 1), 255 * (place >> 1 & 1), 255 * (place >> 2))
        picture[height // 2 :, column] = 255 * (number >> (7 - place) & 1)
    return picture


def number_in(picture: NDArray[np.uint8]) -> int:
    height, width = picture.shape[:2]
    bits = (picture[height * 3 // 4, (2 * place + 1) * width // 16].mean() > 128 for place in range(8))
    return sum(bit << (7 - place) for place, bit in enumerate(bits))


@pytest.mark.parametrize(("width", "height", "fps"), [(320, 240, 30), (640, 480, 60)])
@pytest.mark.parametrize("codec", DECODERS)
def test_each_frame_shows_its_number(codec: str, width: int, height: int, fps: int) -> None:
    encoder = open_encoder(TrackSpec("main_video", "video", "out"), codec, CodecSettings())
    encoder.configure(Quality(full_bitrate(codec, width, height, fps, CodecSettings()), fps))
    decoder = av.CodecContext.create(DECODERS[codec], "r")
    decoder.thread_count = 1
    decoder.options = {"max_frame_delay": "1"} if codec == "av1" else {}
    seen = []
    for number in range(40):
        packet = av.Packet(bytes(encoder.encode(numbered(number, width, height)).payload))
        seen += [number_in(frame.to_ndarray(format="rgb24")) for frame in decoder.decode(packet)]  # type: ignore[attr-defined]
    encoder.close()
    assert seen == list(range(40))
