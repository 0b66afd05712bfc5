"""Opus: packets of 20 ms whatever the length of the blocks, decoded, at the right times."""

from __future__ import annotations

import av
import numpy as np
import pytest

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, audio_codecs, choose_audio_codecs, open_encoder

LOOKAHEAD_US = 2500  # the codec delay of Opus with low delay


def encoded_blocks(samples: np.ndarray, rate: int, block: int) -> list[tuple[float, Encoded]]:
    """The start of each block in microseconds, and its payload."""
    encoder = open_encoder(TrackSpec("voice", "audio", sample_rate=rate), "opus", CodecSettings())
    blocks = [(i / rate * 1e6, encoder.encode(samples[:, i : i + block])) for i in range(0, samples.shape[1], block)]
    encoder.close()
    return blocks


def packets_of(blocks: list[tuple[float, Encoded]]) -> list[tuple[float, bytes]]:
    """Take the payloads apart as a receiver does: each packet with its time."""
    packets = []
    for begin, encoded in blocks:
        payload, at = bytes(encoded.payload), 0
        for i, size in enumerate(encoded.meta["sizes"]):
            packets.append((begin + encoded.pts_shift_us + i * 20_000, payload[at : at + size]))
            at += size
        assert at == len(payload)
    return packets


def decoded(packets: list[tuple[float, bytes]]) -> np.ndarray:
    decoder = av.CodecContext.create("libopus", "r")
    decoder.sample_rate, decoder.layout = 48_000, "mono"
    parts = [frame.to_ndarray() for _, data in packets for frame in decoder.decode(av.Packet(data))]
    sound = np.concatenate(parts, axis=1)
    return sound.reshape(-1).astype(float) / (32768 if sound.dtype == np.int16 else 1)


def chirps(rate: int, seconds: float) -> np.ndarray:
    t = np.arange(round(rate * seconds)) / rate
    sound = np.sin(2 * np.pi * (300 * t + 400 * t**2)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    return (sound * 20_000).astype(np.int16)[None]


@pytest.mark.parametrize(
    ("rate", "block"),
    [(48_000, 1600), (48_000, 960), (48_000, 100), (48_000, 9600), (16_000, 533), (44_100, 1470)],
)
def test_packets_are_twenty_milliseconds_each_without_gaps(rate: int, block: int) -> None:
    blocks = encoded_blocks(chirps(rate, 2), rate, block)
    assert len(blocks) == -(-2 * rate // block)  # one for each block, even one that completes no packet
    packets = packets_of(blocks)
    assert 97 <= len(packets) <= 100
    times = [time for time, _ in packets]
    assert times[0] == -LOOKAHEAD_US
    assert np.allclose(np.diff(times), 20_000, atol=30)
    for begin, encoded in blocks:
        assert encoded.keyframe
        assert encoded.size is None
        assert -LOOKAHEAD_US - 21_000 - 2_000 <= encoded.pts_shift_us <= 0 or begin == 0


@pytest.mark.parametrize(("rate", "block"), [(48_000, 1600), (16_000, 533), (44_100, 1470)])
def test_decoded_sound_is_the_encoded_sound_at_its_time(rate: int, block: int) -> None:
    packets = packets_of(encoded_blocks(chirps(rate, 2), rate, block))
    sound = decoded(packets)
    assert len(sound) == len(packets) * 960
    whole = chirps(48_000, 2).reshape(-1) / 32768
    first = round(packets[0][0] * 48 / 1000)  # the sample at which the decoded sound begins

    def likeness(shift: int) -> float:
        heard = sound[4800 - first + shift : 80_000 - first + shift]
        return float(np.corrcoef(heard, whole[4800:80_000])[0, 1])

    assert likeness(0) > 0.97
    assert likeness(0) > max(likeness(-24), likeness(24))


def test_opus_uses_about_its_bitrate() -> None:
    rng = np.random.default_rng(1)
    packets = packets_of(encoded_blocks(rng.integers(-9000, 9000, (1, 96_000)).astype(np.int16), 48_000, 1600))
    assert 50_000 < sum(len(data) * 8 for _, data in packets) / 2 < 80_000


def test_a_track_is_described_as_the_decoder_gives_it() -> None:
    spec = TrackSpec("voice", "audio", sample_rate=16_000)
    info = open_encoder(spec, "opus", CodecSettings()).describe(2, spec, None)
    assert (info.index, info.kind, info.codec, info.codec_string, info.sample_rate) == (2, "audio", "opus", "opus", 48_000)


def test_opus_is_chosen_only_for_clients_that_request_it() -> None:
    assert audio_codecs() == ("opus", "pcm_s16le")
    assert choose_audio_codecs(["pcm_s16le"]) == ("pcm_s16le",)
    assert choose_audio_codecs(["flac", "opus", "pcm_s16le", "opus"]) == ("opus", "pcm_s16le")
    assert choose_audio_codecs(["flac"]) == ()
