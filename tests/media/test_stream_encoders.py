"""Codecs with inter frames: FFmpeg's own decoders decode their output, packet by packet."""

from __future__ import annotations

import gc
from itertools import islice

import numpy as np
import pytest
from tests.support.codec_clips import VIDEO, Decoder, colour_bars, grainy, opened, psnr, rgb_of

from reactor_trio.media import CodecSettings
from reactor_trio.media.vpx_av1 import Vp8Encoder
from reactor_trio.pacing import Quality
from reactor_trio.protocol import Color

YUV = ["h264", "vp8", "vp9", "av1"]
ALL = [*YUV, "lossless"]
YUV_COLOR = Color("smpte170m", "bt709", "iec61966-2-1", False)

RICH = Quality(1_500_000, 30)


@pytest.mark.parametrize("codec", ALL)
def test_each_frame_gives_one_packet_and_each_packet_that_frame(codec: str) -> None:
    """A decoder without hints returns each picture with its packet: neither side holds pictures back."""
    frames, encoder, decoder = list(islice(grainy(320, 240), 20)), opened(codec, RICH), Decoder(codec)
    for i, frame in enumerate(frames):
        encoded = encoder.encode(frame)
        assert (encoded.keyframe, encoded.size, dict(encoded.meta)) == (i == 0, (320, 240), {})
        back = decoder.rgb(encoded)
        if codec == "lossless":
            assert np.array_equal(back, frame)
        else:
            assert psnr(back, frame) > 26
            assert all(psnr(back, frame) > psnr(back, other) for other in frames[max(0, i - 2) : i])
    assert decoder._context.reorder_depth == 0
    encoder.close()


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("size", [(320, 240), (640, 480)])
def test_saturated_colours_are_right_by_the_matrix_that_is_named(codec: str, size: tuple[int, int]) -> None:
    bars, encoder, decoder = colour_bars(*size), opened(codec, Quality(4_000_000, 30)), Decoder(codec)
    for _ in range(3):
        frame = decoder.frame(encoder.encode(bars))
    back, width = rgb_of(frame), size[0] // 8
    for i in range(8):
        middle = np.s_[16:-16, i * width + 8 : (i + 1) * width - 8]
        assert np.abs(back[middle].astype(int) - bars[middle]).max() <= (0 if codec == "lossless" else 6), i
    info = encoder.describe(0, VIDEO, size)
    assert info.color == (Color() if codec == "lossless" else YUV_COLOR)
    assert info.pixel_format == ("rgb24" if codec == "lossless" else "ycbcr420")
    tagged = (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range)
    in_stream = {"h264": (6, 1, 13, 1), "av1": (6, 1, 13, 1), "lossless": (0, 1, 13, 2)}
    assert tagged == in_stream.get(codec, tagged)  # the other bitstreams cannot carry all of it
    assert codec != "vp9" or tagged[0] == 6


@pytest.mark.parametrize("codec", ALL)
def test_a_requested_keyframe_is_the_next_frame(codec: str) -> None:
    frames, encoder = list(islice(grainy(160, 128), 12)), opened(codec, Quality(600_000, 30))
    packets = []
    for i, frame in enumerate(frames):
        if i in (5, 9):
            encoder.request_keyframe()
            encoder.request_keyframe()
        packets.append(encoder.encode(frame))
    assert [i for i, packet in enumerate(packets) if packet.keyframe] == [0, 5, 9]
    late = Decoder(codec)
    for packet, frame in zip(packets[5:], frames[5:], strict=True):
        assert psnr(late.rgb(packet), frame) > 25


def nals(payload: memoryview) -> list[int]:
    parts = bytes(payload).replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")
    assert parts[0] == b""
    return [part[0] & 31 for part in parts[1:]]


@pytest.mark.parametrize("codec", ["h264", "lossless"])
def test_h264_is_annex_b_with_parameter_sets_on_each_keyframe(codec: str) -> None:
    encoder = opened(codec, RICH)
    kinds = []
    for i, frame in enumerate(islice(grainy(160, 128), 6)):
        if i == 3:
            encoder.request_keyframe()
        kinds.append([kind for kind in nals(encoder.encode(frame).payload) if kind != 6])
    assert kinds == [[7, 8, 5], [1], [1], [7, 8, 5], [1], [1]]


@pytest.mark.parametrize(
    ("codec", "size", "fps", "bitrate", "string"),
    [
        ("h264", (640, 480), 30, 2e6, "avc1.42C01E"),
        ("h264", (1280, 720), 30, 5e6, "avc1.42C01F"),
        ("h264", (1280, 720), 59.94, 8e6, "avc1.42C020"),
        ("vp8", (640, 480), 30, 2e6, "vp8"),
        ("vp9", (640, 480), 30, 2e6, "vp09.00.30.08"),
        ("vp9", (1280, 720), 60, 8e6, "vp09.00.40.08"),
        ("av1", (640, 480), 30, 2e6, "av01.0.04M.08"),
        ("av1", (1280, 720), 60, 8e6, "av01.0.08M.08"),
        ("lossless", (640, 480), 30, 2e6, "avc1.F4001E"),
    ],
)
def test_the_codec_string_names_profile_and_a_level_that_fits(codec, size, fps, bitrate, string) -> None:
    encoder = opened(codec, Quality(bitrate, fps))
    assert encoder.describe(3, VIDEO, None).codec_string is None
    encoded = encoder.encode(colour_bars(*size))
    info = encoder.describe(3, VIDEO, encoded.size)
    assert (info.index, info.codec, info.codec_string, (info.width, info.height)) == (3, codec, string, size)
    assert (info.coded_width, info.coded_height) == (None, None)
    encoder.close()


def test_a_frame_rate_above_the_level_reopens_the_encoder() -> None:
    encoder, bars = opened("h264", Quality(5e6, 30)), colour_bars(1280, 720)
    strings = []
    for fps in (30, 29, 60):
        encoder.configure(Quality(5e6, fps))
        encoded = encoder.encode(bars)
        strings.append((encoded.keyframe, encoder.describe(0, VIDEO, encoded.size).codec_string))
    assert strings == [(True, "avc1.42C01F"), (False, "avc1.42C01F"), (True, "avc1.42C020")]


@pytest.mark.parametrize("codec", YUV)
@pytest.mark.parametrize(("size", "coded"), [((161, 129), (162, 130)), ((161, 128), (162, 128)), ((160, 129), (160, 130))])
def test_odd_sizes_are_padded_with_the_last_row_and_column(codec, size, coded) -> None:
    width, height = size
    encoder, decoder = opened(codec, RICH), Decoder(codec)
    for frame in islice(grainy(width, height), 3):
        encoded = encoder.encode(frame)
        back = decoder.rgb(encoded)
    info = encoder.describe(0, VIDEO, encoded.size)
    assert encoded.size == (info.width, info.height) == size
    assert (info.coded_width, info.coded_height) == coded
    assert back.shape == (coded[1], coded[0], 3)
    assert psnr(back[:height, :width], frame) > 27
    for beyond, edge in ((back[height:, :width], frame[-1:]), (back[:height, width:], frame[:, -1:])):
        assert beyond.size == 0 or psnr(beyond, edge) > 22


def test_lossless_takes_odd_sizes_without_padding() -> None:
    encoder, decoder = opened("lossless"), Decoder("lossless")
    for frame in islice(grainy(161, 129), 3):
        encoded = encoder.encode(frame)
        assert np.array_equal(decoder.rgb(encoded), frame)
    assert encoder.describe(0, VIDEO, encoded.size).coded_width is None


@pytest.mark.parametrize("codec", YUV)
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (17, 5), (62, 90)])
def test_tiny_pictures_are_padded_to_the_codecs_minimum(codec: str, size: tuple[int, int]) -> None:
    encoder, decoder = opened(codec, RICH), Decoder(codec)
    grey = np.full((size[1], size[0], 3), 90, np.uint8)
    back = decoder.rgb(encoder.encode(grey))[: size[1], : size[0]]
    assert np.abs(back.astype(int) - grey).max() <= 3


@pytest.mark.parametrize("codec", ALL)
def test_a_change_of_size_in_mid_stream_begins_with_a_keyframe(codec: str) -> None:
    encoder, decoder = opened(codec, RICH), Decoder(codec)
    seen = []
    for size in ((160, 128), (160, 128), (200, 120), (200, 120), (160, 128)):
        frame = next(grainy(*size))
        encoded = encoder.encode(frame)
        info = encoder.describe(0, VIDEO, encoded.size)
        assert encoded.size == (info.width, info.height) == size
        assert psnr(decoder.rgb(encoded), frame) > 27
        seen.append(encoded.keyframe)
    assert seen == [True, False, True, False, True]


@pytest.mark.parametrize("codec", YUV)
def test_a_smaller_scale_gives_the_same_picture_smaller(codec: str) -> None:
    encoder, decoder = opened(codec, RICH), Decoder(codec)
    bars = colour_bars(322, 242)
    assert encoder.encode(bars).size == (322, 242)
    encoder.configure(Quality(1_500_000, 30, 0.5))
    half = encoder.encode(bars)
    assert (half.keyframe, half.size) == (True, (160, 120))  # 161 is odd, so it is rounded to an even number
    back = decoder.rgb(half)
    for i in range(8):
        assert np.abs(back[60, i * 20 + 10].astype(int) - bars[60, i * 40 + 20]).max() <= 8
    encoder.configure(RICH)
    assert encoder.encode(bars).size == (322, 242)


def test_lossless_is_not_scaled() -> None:
    encoder = opened("lossless", Quality(1, 30, 0.5))
    bars = colour_bars(64, 48)
    assert np.array_equal(Decoder("lossless").rgb(encoder.encode(bars)), bars)


def bits_per_second(encoder, frames, fps: float) -> tuple[float, int]:
    """The bits per second of the second half, and the number of keyframes."""
    packets = [encoder.encode(frame) for frame in frames]
    counted = packets[len(packets) // 2 :]
    return sum(packet.payload.nbytes * 8 for packet in counted) / len(counted) * fps, sum(p.keyframe for p in packets)


@pytest.fixture(scope="module")
def clip() -> list[np.ndarray]:
    return list(islice(grainy(320, 240), 270))


@pytest.fixture(scope="module")
def large() -> list[np.ndarray]:
    return list(islice(grainy(640, 480), 30))


def test_x264_follows_its_target_live_below_the_ceiling(clip) -> None:
    encoder = opened("h264")
    for kbps, keyframes in ((600, 1), (300, 0), (200, 0), (500, 0)):
        encoder.configure(Quality(kbps * 1000, 30))
        got, keys = bits_per_second(encoder, clip[:120], 30)
        assert got == pytest.approx(kbps * 1000, rel=0.12), kbps
        assert keys == keyframes


def test_x264_is_opened_for_thin_links_so_that_keyframes_stay_small(clip) -> None:
    encoder, sizes = opened("h264"), []
    for kbps in (600, 80, 600):
        encoder.configure(Quality(kbps * 1000, 30))
        got, keys = bits_per_second(encoder, clip[:120], 30)
        assert (got, keys) == (pytest.approx(kbps * 1000, rel=0.12), 1)
        encoder.request_keyframe()
        key = encoder.encode(clip[0])
        assert key.keyframe
        sizes.append(key.payload.nbytes * 8 / (kbps * 1000))
    assert max(sizes) < 0.5  # seconds on a link of exactly that rate


@pytest.mark.parametrize("share", [1.0, 0.51, 0.45, 0.3])
def test_a_keyframe_after_a_still_picture_leaves_room_on_the_link(large, share: float) -> None:
    """A still picture leaves the encoder's buffer full, and the size of the buffer follows the ceiling of the opening."""
    full = 2_000_000
    encoder = opened("h264", Quality(full, 30))
    bits_per_second(encoder, large, 30)
    encoder.configure(Quality(share * full, 30))
    bits_per_second(encoder, large[:1] * 60, 30)
    encoder.request_keyframe()
    key = encoder.encode(large[0])
    assert key.keyframe
    assert key.payload.nbytes * 8 / (share * full) < 0.5  # seconds at the target bitrate


def test_the_first_keyframe_is_small_and_the_next_pictures_are_as_good(large) -> None:
    """A client may start on a link that carries a tenth of full quality."""
    frames, full = large[:10], 2_000_000
    encoder, decoder = opened("h264", Quality(full, 30)), Decoder("h264")
    packets = [encoder.encode(frame) for frame in frames]
    assert packets[0].payload.nbytes * 8 < 0.3 * full / 4 * 1.1
    quality = [psnr(decoder.rgb(packet), frame) for packet, frame in zip(packets, frames, strict=True)]
    assert quality[0] > min(quality[1:]) - 2


@pytest.mark.parametrize("codec", YUV)
@pytest.mark.parametrize("fps", [15, 60])
def test_the_bits_per_second_do_not_depend_on_the_frame_rate(clip, codec: str, fps: int) -> None:
    """The frame rate halves or doubles within the stream."""
    encoder = opened(codec, Quality(600_000, 30))
    bits_per_second(encoder, clip[:60], 30)
    encoder.configure(Quality(600_000, fps))
    got, _ = bits_per_second(encoder, (clip * 2)[: 5 * fps], fps)  # after the time of a reopening
    got, _ = bits_per_second(encoder, (clip * 2)[: 4 * fps], fps)
    assert got == pytest.approx(600_000, rel=0.15)


@pytest.mark.parametrize("codec", ["vp8", "vp9", "av1"])
def test_other_encoders_follow_their_target_by_being_reopened(clip, codec: str) -> None:
    encoder = opened(codec, Quality(600_000, 30))
    got, keys = bits_per_second(encoder, clip[:120], 30)
    assert (got, keys) == (pytest.approx(600_000, rel=0.15), 1)
    encoder.configure(Quality(240_000, 30))
    assert encoder.encode(clip[120]).keyframe  # at once, since it is less than half
    got, keys = bits_per_second(encoder, clip[121:240], 30)
    assert keys == 0
    assert 200_000 < got < (380_000 if codec == "av1" else 280_000)  # SVT-AV1 exceeds its target by half here
    encoder.configure(Quality(500_000, 30))
    keyframes = [encoder.encode(frame).keyframe for frame in clip[:60]]
    assert keyframes.index(True) == 150 - 120  # five seconds after the last reopening
    assert sum(keyframes) == 1
    got, _ = bits_per_second(encoder, clip[60:180], 30)
    assert got == pytest.approx(500_000, rel=0.15)


@pytest.mark.parametrize("codec", ALL)
def test_an_encoder_reads_a_picture_only_until_it_gives_its_packet(codec: str, monkeypatch) -> None:
    """One buffer can therefore hold all pictures in turn."""
    by_time = Vp8Encoder.options  # two encoders give the same bytes only if neither looks at the clock
    monkeypatch.setattr(Vp8Encoder, "options", lambda self, opening: by_time(self, opening) | {"cpu-used": "-12"})
    spoilt, whole = opened(codec, RICH), opened(codec, RICH)
    for i, frame in enumerate(islice(grainy(160, 128), 20)):
        mine = frame.copy()
        payload = bytes(spoilt.encode(mine).payload)
        mine[:] = 255 * (i % 2)
        buffer = getattr(getattr(spoilt, "_encoder", spoilt), "_converter", None)
        if buffer is not None:
            buffer._yuv[:] = 17
        assert payload == bytes(whole.encode(frame).payload)


@pytest.mark.parametrize("codec", ALL)
def test_frames_of_any_memory_layout_are_accepted_and_not_changed(codec: str) -> None:
    wide = next(grainy(320, 256))
    view = wide[::2, ::-2]
    view.flags.writeable = False
    before = wide.copy()
    encoder, decoder = opened(codec, RICH), Decoder(codec)
    assert psnr(decoder.rgb(encoder.encode(view)), view) > 25
    assert np.array_equal(wide, before)


@pytest.mark.parametrize("codec", ALL)
def test_a_closed_encoder_logs_nothing_and_another_continues(codec: str, capfd) -> None:
    gc.collect()  # encoders of earlier tests that were not closed log it now
    capfd.readouterr()
    one, other, bars = opened(codec, RICH), opened(codec, RICH), colour_bars(160, 128)
    one.encode(bars)
    other.encode(bars)
    one.close()
    one.close()
    opened(codec).close()  # one that was never used
    assert not other.encode(bars).keyframe
    other.close()
    said = capfd.readouterr()
    # SVT-AV1 decides at its first use in a process whether it prints its settings; that may have been another test.
    lines = [line for line in (said.out + said.err).splitlines() if not line.startswith(("Svt[info]", "Svt[warn]"))]
    assert lines == []


@pytest.mark.parametrize("codec", YUV)
def test_without_a_target_the_quality_is_full(clip, codec: str) -> None:
    got, _ = bits_per_second(opened(codec, None, CodecSettings(bitrate=400_000)), clip[:150], 30)
    assert got == pytest.approx(400_000, rel=0.2)


def test_the_preset_comes_from_the_settings(clip) -> None:
    sizes = {}
    for preset in ("realtime", "ultrafast", "superfast"):
        encoder = opened("h264", Quality(300_000, 30), CodecSettings(preset=preset))
        sizes[preset] = [encoder.encode(frame).payload.nbytes for frame in clip[:5]]
        assert encoder.implementation == "libx264"
    assert sizes["realtime"] != sizes["ultrafast"] != sizes["superfast"] != sizes["realtime"]


@pytest.mark.parametrize("size", [(2, 2), (64, 48), (320, 240)])
def test_the_first_picture_is_right_however_low_the_bitrate(size: tuple[int, int]) -> None:
    """A keyframe without room in the encoder's buffer would be grey."""
    encoder, decoder = opened("h264", Quality(1_000, 4)), Decoder("h264")
    back = decoder.rgb(encoder.encode(np.full((size[1], size[0], 3), 61, np.uint8)))
    assert np.abs(back.astype(int) - 61).max() <= 3
