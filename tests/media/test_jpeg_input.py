"""JPEG pictures of clients: what decoding one may cost is bounded before it is decoded."""

from __future__ import annotations

import numpy as np
import pytest
import simplejpeg
from tests.support.many_scans import jpeg_of_scans

from reactor_trio.client.decoders import make_decoder
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Undecodable
from reactor_trio.protocol import Packet, TrackInfo

PICTURE = np.random.default_rng(1).integers(0, 255, (16, 24, 3), np.uint8)
JPEG = simplejpeg.encode_jpeg(PICTURE, colorspace="RGB")


def decode(payload: bytes) -> np.ndarray:
    return InputDecoder(TrackSpec("camera", "video", "in")).decode({"codec": "jpeg"}, memoryview(payload))


def decode_in_client(payload: bytes) -> np.ndarray:
    track = TrackInfo(0, "picture", "video", "out", "jpeg", width=8, height=8)
    (picture,) = make_decoder(track).decode(Packet(0, 0, 0, 1, None, 0, {}, memoryview(payload)))
    return picture


def test_a_hundred_scans_are_decoded_and_one_more_is_refused():
    assert decode(jpeg_of_scans(100)).shape == decode_in_client(jpeg_of_scans(100)).shape == (8, 8, 3)
    with pytest.raises(Undecodable, match=r"^expected a JPEG picture of at most 100 scans, got more$"):
        decode(jpeg_of_scans(101))
    with pytest.raises(ProtocolError, match=r"picture: expected a JPEG picture of at most 100 scans, got more$"):
        decode_in_client(jpeg_of_scans(101))


def test_a_picture_that_would_decode_for_a_minute_is_not_decoded(monkeypatch):
    monkeypatch.setattr(simplejpeg, "decode_jpeg", lambda *_, **__: pytest.fail("it was decoded"))
    payload = jpeg_of_scans(60_000, 1024)
    assert len(payload) < 1_500_000
    with pytest.raises(Undecodable, match="scans"):
        decode(payload)


@pytest.mark.parametrize("frame", [0xC3, 0xC9, 0xCA, 0xCB])
def test_arithmetic_and_lossless_coding_is_refused(frame):
    with pytest.raises(Undecodable, match=r"^expected a JPEG picture with Huffman coding, baseline or progressive$"):
        decode(jpeg_of_scans(2, frame=frame))


def test_scans_of_a_thumbnail_in_the_metadata_do_not_count():
    thumbnail = b"\xff\xe1" + (1002).to_bytes(2, "big") + b"\xff\xda" * 500
    assert decode(JPEG[:2] + thumbnail + JPEG[2:]).shape == PICTURE.shape


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (jpeg_of_scans(2, 4104), "expected a picture of at most 4096x4096, got 4104x4104"),
        (JPEG[:2] + b"\xff\xe1\x00\x02" * 1000 + JPEG[2:], "not a JPEG picture: its frame was not found"),
        (JPEG[:300], "not a JPEG picture: "),
        (b"", "not a JPEG picture: "),
    ],
    ids=["size", "segments", "cut", "empty"],
)
def test_jpegs_of_other_forms_are_refused(payload, why):
    with pytest.raises(Undecodable, match=f"^{why}"):
        decode(payload)
