"""Payloads, decoded by third-party decoders."""

from __future__ import annotations

import numpy as np
import pytest
import simplejpeg

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, choose_codecs, open_encoder

VIDEO = TrackSpec("picture", "video")
AUDIO = TrackSpec("voice", "audio", sample_rate=16_000)
SETTINGS = CodecSettings()


def gradient(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("view", [lambda f: f, lambda f: f[::2, ::3], lambda f: f[:, ::-1]])
def test_raw_is_lossless_whatever_the_memory_layout(view: object) -> None:
    frame = view(gradient(48, 64))  # type: ignore[operator]
    encoded = open_encoder(VIDEO, "raw", SETTINGS).encode(frame)
    height, width = frame.shape[:2]
    assert (encoded.keyframe, encoded.size, encoded.payload.nbytes) == (True, (width, height), height * width * 3)
    assert np.array_equal(np.frombuffer(encoded.payload, np.uint8).reshape(frame.shape), frame)


def test_jpeg_decodes_to_nearly_the_same_colours() -> None:
    frame = gradient(48, 64)
    encoded = open_encoder(VIDEO, "jpeg", CodecSettings(jpeg_quality=90)).encode(frame)
    back = simplejpeg.decode_jpeg(bytes(encoded.payload), colorspace="RGB").astype(int)
    assert abs(back - frame).mean() < 4
    assert np.abs((back - frame).mean(axis=(0, 1))).max() < 1  # no channel has an offset


def test_audio_is_little_endian_16_bit() -> None:
    encoded = open_encoder(AUDIO, "pcm_s16le", SETTINGS).encode(np.array([[1, -2, 258]], np.int16))
    assert bytes(encoded.payload) == b"\x01\x00\xfe\xff\x02\x01"


def test_descriptions_contain_what_a_decoder_needs() -> None:
    raw = open_encoder(VIDEO, "raw", SETTINGS).describe(0, VIDEO, (64, 48))
    assert (raw.codec, raw.width, raw.height, raw.pixel_format) == ("raw", 64, 48, "rgb24")
    assert raw.color is not None
    assert open_encoder(VIDEO, "jpeg", SETTINGS).describe(0, VIDEO, None).width is None
    voice = open_encoder(AUDIO, "pcm_s16le", SETTINGS).describe(1, AUDIO, None)
    assert (voice.kind, voice.codec, voice.sample_rate) == ("audio", "pcm_s16le", 16_000)


def test_common_codecs_are_chosen_in_the_clients_order() -> None:
    assert choose_codecs(["mpeg2", "jpeg", "raw", "jpeg"]) == ("jpeg", "raw")
    assert choose_codecs(["raw", "jpeg"]) == ("raw", "jpeg")
    assert choose_codecs(["mpeg2", "hevc"]) == ()
