from __future__ import annotations

import numpy as np
import pytest
import simplejpeg
from tests.support.encoded_streams import encoded, number_of, numbered, opus, striped

from reactor_trio.client import decoders
from reactor_trio.decoding import DecodeError, VideoDecoder, colour
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Color, Packet, TrackInfo


def track(codec, width=None, height=None):
    kind = "audio" if codec in ("pcm_s16le", "opus") else "video"
    return TrackInfo(0, "picture", kind, "out", codec, width=width, height=height)


def packet(payload, **meta):
    return Packet(0, 0, 0, 1, None, 0, meta, memoryview(payload))


def test_raw_is_a_read_only_view():
    message = bytearray(range(18))
    (frame,) = decoders.make_decoder(track("raw", 3, 2)).decode(packet(message))
    assert frame.shape == (2, 3, 3)
    assert frame.dtype == np.uint8
    assert frame[1, 0].tolist() == [9, 10, 11]
    assert not frame.flags.writeable
    message[9] = 200
    assert frame[1, 0, 0] == 200


def test_raw_of_another_size_is_refused():
    with pytest.raises(ProtocolError, match="track picture: a raw frame of 3x2 has 18 bytes, got 17"):
        decoders.make_decoder(track("raw", 3, 2)).decode(packet(bytes(17)))
    with pytest.raises(ProtocolError, match="before the track's size"):
        decoders.make_decoder(track("raw")).decode(packet(bytes(18)))


def test_jpeg_keeps_the_order_of_colours():
    picture = np.zeros((16, 32, 3), np.uint8)
    picture[..., 0] = 200
    file = simplejpeg.encode_jpeg(picture, quality=95, colorspace="RGB")
    (frame,) = decoders.make_decoder(track("jpeg")).decode(packet(file))
    assert frame.shape == (16, 32, 3)
    assert np.abs(frame.astype(int) - picture).max() <= 3


def test_a_frame_that_is_not_given_is_none():
    """The consumer has taken a later one; a step that was cancelled left this one behind."""
    file = simplejpeg.encode_jpeg(np.zeros((16, 16, 3), np.uint8), quality=95, colorspace="RGB")
    for described, payload in ((track("jpeg"), file), (track("raw", 3, 2), bytes(18)), (track("pcm_s16le"), bytes(4))):
        assert decoders.make_decoder(described).decode(packet(payload), give=False) == []


def test_a_payload_that_is_not_a_jpeg_is_refused():
    with pytest.raises(ProtocolError, match="track picture: not a JPEG picture"):
        decoders.make_decoder(track("jpeg")).decode(packet(b"no picture"))


def test_sound_is_one_row_of_little_endian_samples():
    (samples,) = decoders.make_decoder(track("pcm_s16le")).decode(packet(b"\x01\x00\xff\xff"))
    assert samples.dtype == np.int16
    assert samples.tolist() == [[1, -1]]
    with pytest.raises(ProtocolError, match="half a 16-bit sample in 3 bytes"):
        decoders.make_decoder(track("pcm_s16le")).decode(packet(b"\x01\x00\xff"))


@pytest.mark.parametrize(("codec", "kind"), [("pcm_s16le", "video"), ("jpeg", "audio")])
def test_a_codec_of_the_other_kind_is_the_servers_mistake(codec, kind):
    with pytest.raises(ProtocolError, match=f"{codec} is not a codec for {kind}"):
        decoders.make_decoder(TrackInfo(0, "odd", kind, "out", codec))


def test_the_default_codecs():
    assert decoders.available() == ("jpeg", "h264", "vp8", "vp9", "av1", "lossless", "raw")
    assert decoders.available("audio") == ("opus", "pcm_s16le")
    assert decoders.wanted(None) == ("jpeg", "h264", "vp8", "vp9", "av1")
    assert decoders.wanted(None, "audio") == ("pcm_s16le",)
    assert decoders.wanted(["h266", "raw", "lossless"]) == ("raw", "lossless")
    assert decoders.wanted("h264,jpeg") == ("h264", "jpeg")
    assert decoders.wanted([]) == decoders.wanted(["none"]) == ()


def test_a_codec_without_its_decoder_is_left_out(monkeypatch):
    monkeypatch.setattr(decoders, "find_spec", lambda package: package if package != "av" else None)
    assert decoders.available() == ("jpeg", "raw")
    assert decoders.wanted(None) == ("jpeg",)
    assert decoders.wanted("h264,jpeg") == ("jpeg",)
    assert decoders.wanted(["opus", "pcm_s16le"], "audio") == ("pcm_s16le",)
    words = r'video=h264,av1 cannot be decoded here; available: jpeg, raw; pip install "reactor-trio\[video\]"'
    with pytest.raises(ValueError, match=words):
        decoders.wanted(["h264", "av1"])
    with pytest.raises(ProtocolError, match=r'codec h264 cannot be decoded here; pip install "reactor-trio\[video\]"'):
        decoders.make_decoder(track("h264"))

    row = decoders.CODECS["jpeg"]._replace(package="av")
    monkeypatch.setitem(decoders.CODECS, "jpeg", row)
    assert decoders.wanted(None) == ("raw",)


def test_an_unknown_codec_is_a_protocol_error():
    with pytest.raises(ProtocolError, match="track picture: codec h266 cannot be decoded here"):
        decoders.make_decoder(track("h266"))


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1", "lossless"])
def test_an_inter_frame_codec_gives_every_picture(codec):
    """One out for each in, cropped to what the track says, in the colours that went in."""
    pictures = numbered(6, 66, 50)
    decoder = decoders.make_decoder(track(codec, 65, 49))
    for picture, (data, _) in zip(pictures, encoded(codec, pictures), strict=True):
        (frame,) = decoder.decode(packet(data))
        assert (frame.shape, frame.dtype, frame.flags.c_contiguous) == ((49, 65, 3), np.uint8, True)
        wrong = np.abs(frame.astype(int) - picture[:49, :65])
        assert wrong.max() == 0 if codec == "lossless" else wrong.mean() < (12 if codec == "av1" else 6)
        assert number_of(frame) == number_of(picture)


@pytest.mark.parametrize(("matrix", "full_range"), [("smpte170m", False), ("bt709", False), ("smpte170m", True)])
def test_colours_are_what_the_track_says(matrix, full_range):
    """The matrix of the description, also where the stream says nothing: the wrong one is off by up to 30."""
    decoder = decoders.make_decoder(
        TrackInfo(0, "p", "video", "out", "h264", width=64, height=48, color=Color(matrix, full_range=full_range))
    )
    colours = [[220, 30, 40], [20, 200, 60], [30, 60, 210], [255, 255, 255]]
    ((data, _),) = encoded("h264", [striped(colours)], matrix=matrix, full_range=full_range)
    (frame,) = decoder.decode(packet(data))
    for i, wanted in enumerate(colours):
        assert np.abs(frame[24, 16 * i + 8].astype(int) - wanted).max() <= 4


def test_colours_without_opencv_are_the_same(monkeypatch):
    (data, _), *_ = encoded("vp8", numbered(1, 64, 48))
    (fast,) = decoders.make_decoder(track("vp8", 64, 48)).decode(packet(data))
    monkeypatch.setattr(colour, "opencv", lambda: None)
    (plain,) = decoders.make_decoder(track("vp8", 64, 48)).decode(packet(data))
    assert np.abs(fast.astype(int) - plain).mean() < 2


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1", "lossless"])
def test_damaged_packets_and_packets_without_their_keyframe_are_refused(codec):
    (key, _), (delta, _) = encoded(codec, numbered(2, 64, 48))
    # A truncated picture of VP8 or VP9 is one that is all there, for all that their decoders can say.
    truncated = [] if codec in ("vp8", "vp9") else [key[: len(key) // 2]]
    for data in (delta, b"", b"no picture", *truncated):
        with pytest.raises(DecodeError):
            decoders.make_decoder(track(codec, 64, 48)).decode(packet(data))
    with pytest.raises(DecodeError, match="expected a picture of 80x60, got 64x48"):
        decoders.make_decoder(track(codec, 80, 60)).decode(packet(key))


def test_a_skipped_picture_is_decoded_but_not_returned():
    pictures = numbered(3, 64, 48)
    decoder = decoders.make_decoder(track("h264", 64, 48))
    packets = [packet(data) for data, _ in encoded("h264", pictures)]
    assert [len(decoder.decode(each, give=False)) for each in packets[:2]] == [0, 0]
    (frame,) = decoder.decode(packets[2])
    assert number_of(frame) == 2


def test_a_size_beyond_the_limit_costs_no_memory():
    for codec in ("h264", "vp8", "vp9"):
        ((data, _),) = encoded(codec, numbered(1, 96, 64))
        with pytest.raises(DecodeError):
            VideoDecoder(codec, max_side=64).decode(memoryview(data))


def test_opus():
    tone = (8000 * np.sin(np.arange(9600) * 2 * np.pi * 440 / 48_000)).astype(np.int16)
    packets = opus(tone)
    decoder = decoders.make_decoder(TrackInfo(0, "sound", "audio", "out", "opus", sample_rate=48_000))
    assert decoder.decode(packet(b"", sizes=[])) == []
    block = packets[:4]
    (samples,) = decoder.decode(packet(b"".join(block), sizes=[len(each) for each in block]))
    assert (samples.dtype, samples.shape) == (np.int16, (1, 3840))
    rest = packets[4:]
    (more,) = decoder.decode(packet(b"".join(rest), sizes=[len(each) for each in rest]))
    # the encoder's own delay is 312 samples
    heard = np.concatenate([samples, more], axis=1)[0, 312:].astype(int)
    assert np.abs(heard[2000:8000] - tone[2000:8000]).max() < 800
    for sizes in (None, [3], [0], [-1, 2], ["1"]):
        with pytest.raises(ProtocolError, match="track sound: "):
            decoder.decode(packet(b"\x00", sizes=sizes))
