from __future__ import annotations

import numpy as np
import pytest
import simplejpeg

from reactor_trio.client import decoders
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import TrackInfo


def track(codec, width=None, height=None):
    return TrackInfo(0, "picture", "video", "out", codec, width=width, height=height)


def test_raw_is_a_read_only_view():
    message = bytearray(range(18))
    (frame,) = decoders.make_decoder(track("raw", 3, 2)).decode(memoryview(message), 1)
    assert frame.shape == (2, 3, 3)
    assert frame.dtype == np.uint8
    assert frame[1, 0].tolist() == [9, 10, 11]
    assert not frame.flags.writeable
    message[9] = 200
    assert frame[1, 0, 0] == 200


def test_raw_of_another_size_is_refused():
    with pytest.raises(ProtocolError, match="track picture: a raw frame of 3x2 has 18 bytes, got 17"):
        decoders.make_decoder(track("raw", 3, 2)).decode(memoryview(bytes(17)), 1)
    with pytest.raises(ProtocolError, match="before the track's size"):
        decoders.make_decoder(track("raw")).decode(memoryview(bytes(18)), 1)


def test_jpeg_keeps_the_order_of_colours():
    picture = np.zeros((16, 32, 3), np.uint8)
    picture[..., 0] = 200
    file = simplejpeg.encode_jpeg(picture, quality=95, colorspace="RGB")
    (frame,) = decoders.make_decoder(track("jpeg")).decode(memoryview(file), 1)
    assert frame.shape == (16, 32, 3)
    assert np.abs(frame.astype(int) - picture).max() <= 3


def test_what_is_no_jpeg_is_refused():
    with pytest.raises(ProtocolError, match="track picture: not a JPEG picture"):
        decoders.make_decoder(track("jpeg")).decode(memoryview(b"no picture"), 1)


def test_sound_is_one_row_of_little_endian_samples():
    (samples,) = decoders.make_decoder(track("pcm_s16le")).decode(memoryview(b"\x01\x00\xff\xff"), 1)
    assert samples.dtype == np.int16
    assert samples.tolist() == [[1, -1]]
    with pytest.raises(ProtocolError, match="half a 16-bit sample in 3 bytes"):
        decoders.make_decoder(track("pcm_s16le")).decode(memoryview(b"\x01\x00\xff"), 1)


def test_a_codec_without_its_decoder_is_left_out(monkeypatch):
    assert decoders.available() == ("jpeg", "raw")
    assert decoders.wanted(None) == ("jpeg", "raw")
    assert decoders.wanted(["h264", "raw", "jpeg"]) == ("raw", "jpeg")
    assert decoders.wanted("h264,jpeg") == ("jpeg",)
    assert decoders.wanted([]) == decoders.wanted(["none"]) == ()
    with pytest.raises(ValueError, match="video=h264,av1 cannot be decoded here; available: jpeg, raw"):
        decoders.wanted(["h264", "av1"])

    row = decoders.CODECS["jpeg"]._replace(package="a_package_that_is_not_installed")
    monkeypatch.setitem(decoders.CODECS, "jpeg", row)
    assert decoders.wanted(None) == ("raw",)


def test_a_codec_that_nobody_asked_for():
    with pytest.raises(ProtocolError, match="track picture: codec h264 cannot be decoded here"):
        decoders.make_decoder(track("h264"))
