"""The available codecs, with and without the extra, and the error that a client gets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from simplejpeg import decode_jpeg
from tests.support.codec_clips import VIDEO, colour_bars, grainy, opened, psnr

from reactor_trio.connection.connect_request import parse_connect_request
from reactor_trio.media import CodecSettings, encoders, open_encoder, video_codecs
from reactor_trio.pacing import Quality
from reactor_trio.transport import Refused

WITHOUT = """
import sys, logging
for name in {blocked!r}:
    sys.modules[name] = None
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {blocked!r} else find_spec(name, *rest)
import numpy as np
from reactor_trio.media import CodecSettings, choose_codecs, encoders, open_encoder, video_codecs
from reactor_trio.connection.connect_request import parse_connect_request
from reactor_trio.errors import ManifestError
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.pacing import Quality
from reactor_trio.transport import Refused
picture = np.zeros((480, 640, 3), np.uint8); picture[:, 320:] = (255, 128, 0)
"""

NOTHING = WITHOUT.format(blocked=("av", "cv2")) + """
assert video_codecs() == ("jpeg", "raw")
assert encoders(CodecSettings()) == {"jpeg": "simplejpeg", "raw": "none", "pcm_s16le": "none"}
assert choose_codecs(["h264", "vp8", "jpeg"]) == ("jpeg",)
encoder = open_encoder(TrackSpec("p", "video"), "jpeg", CodecSettings())
encoder.configure(Quality(1e6, 30, 0.5))
assert encoder.encode(picture).size == (320, 240)
try:
    parse_connect_request({"video": "h264,vp8"}, "m")
except Refused as refused:
    print(refused.refusal.message)
try:
    encoders(CodecSettings(h264="libx264"))
except ManifestError as error:
    print(error)
assert not {"av", "cv2"} & {name for name, module in sys.modules.items() if module}
"""

ONLY_AV = WITHOUT.format(blocked=("cv2",)) + """
import av
logging.basicConfig(format="%(message)s", stream=sys.stdout)
encoder, decoder = open_encoder(TrackSpec("p", "video"), "h264", CodecSettings()), av.CodecContext.create("h264", "r")
for scale in (1.0, 0.5):
    encoder.configure(Quality(1e6, 30, scale))
    encoded = encoder.encode(picture)
    (frame,) = decoder.decode(av.Packet(bytes(encoded.payload)))
    back = frame.to_ndarray(format="rgb24")
    assert back.shape == (round(480 * scale), round(640 * scale), 3) and encoded.keyframe
    quarter = back.shape[1] // 4
    assert np.abs(back[10, quarter].astype(int)).max() < 6
    assert np.abs(back[10, -quarter].astype(int) - (255, 128, 0)).max() < 6
"""


def in_a_fresh_interpreter(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_base_installation_works_without_pyav_and_opencv_and_says_how_to_get_them() -> None:
    assert in_a_fresh_interpreter(NOTHING) == [
        'video: this server encodes jpeg, raw, not h264, vp8; for h264, vp8: pip install "reactor-trio[video]"',
        'runtime.codec.h264: libx264 is not installed: pip install "reactor-trio[video]"',
    ]


def test_without_opencv_ffmpeg_converts_and_one_warning_says_so() -> None:
    (said,) = in_a_fresh_interpreter(ONLY_AV)
    assert said.startswith("RGB is converted to YUV by FFmpeg")


def test_the_media_layer_imports_optional_packages_only_when_needed() -> None:
    program = "import sys, reactor_trio.cli.run_command; assert not {'av', 'cv2', 'torch'} & set(sys.modules)"
    assert in_a_fresh_interpreter(program) == []


def test_with_the_extra_all_codecs_are_listed_best_first() -> None:
    assert video_codecs() == ("h264", "vp8", "vp9", "av1", "jpeg", "lossless", "raw")
    assert list(encoders(CodecSettings(h264="libx264")).items()) == [
        ("h264", "libx264"), ("vp8", "libvpx"), ("vp9", "libvpx-vp9"), ("av1", "libsvtav1"), ("jpeg", "simplejpeg"),
        ("lossless", "libx264rgb"), ("raw", "none"), ("opus", "libopus"), ("pcm_s16le", "none"),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", video_codecs())
def test_the_reported_encoder_of_a_codec_is_the_one_that_runs(codec: str) -> None:
    encoder = open_encoder(VIDEO, codec, CodecSettings(h264="libx264"))
    assert (encoder.codec, encoder.implementation) == (codec, encoders(CodecSettings(h264="libx264"))[codec])
    assert encoder.describe(0, VIDEO, None).codec == codec


def test_the_error_for_unavailable_codecs_lists_the_available_ones() -> None:
    with pytest.raises(Refused) as refused:
        parse_connect_request({"video": "hevc"}, "model")
    why = f"{refused.value.refusal.message}\n".encode()
    assert why == b"video: this server encodes h264, vp8, vp9, av1, jpeg, lossless, raw, not hevc\n"


def test_jpeg_follows_its_target_and_returns_to_its_quality() -> None:
    clip = grainy(320, 240)
    encoder = opened("jpeg")
    frames = [next(clip) for _ in range(40)]
    declared = [encoder.encode(frame).payload.nbytes for frame in frames[:10]]
    for bitrate, fps in ((3e6, 30), (1.5e6, 30), (1.5e6, 15)):
        encoder.configure(Quality(bitrate, fps))
        sizes = [encoder.encode(frame).payload.nbytes for frame in frames]
        assert sum(sizes[20:]) / 20 * 8 * fps == pytest.approx(bitrate, rel=0.1)
    encoder.configure(Quality(1e9, 30))
    assert [encoder.encode(frame).payload.nbytes for frame in frames[:10]] == declared


def test_jpeg_never_goes_below_quality_20_and_stops_at_its_bitrate() -> None:
    frame = next(grainy(320, 240))
    least = opened("jpeg", None, CodecSettings(jpeg_quality=20)).encode(frame).payload.nbytes
    encoder = opened("jpeg", Quality(1000, 30))
    assert [encoder.encode(frame).payload.nbytes for _ in range(5)][-1] == least
    bounded = opened("jpeg", Quality(1e9, 30), CodecSettings(bitrate=2_000_000))
    sizes = [bounded.encode(frame).payload.nbytes for _ in range(30)]
    assert sizes[-1] * 8 * 30 == pytest.approx(2_000_000, rel=0.1)


def test_jpeg_is_scaled_and_raw_is_not() -> None:
    bars = colour_bars(320, 240)
    small = opened("jpeg", Quality(1e9, 30, 0.5)).encode(bars)
    back = decode_jpeg(bytes(small.payload), colorspace="RGB")
    assert (small.size, back.shape) == ((160, 120), (120, 160, 3))
    assert psnr(back[:, 10:30:20], bars[::2, 20:60:40]) > 25
    raw = opened("raw", Quality(1, 1, 0.5)).encode(bars)
    assert np.array_equal(np.frombuffer(raw.payload, np.uint8).reshape(bars.shape), bars)
