"""Streams in the form of the wire, made with PyAV's own encoders, and a reader for the recorded files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import simplejpeg

from reactor_trio.media.scheduling import ordinary_scheduling
from reactor_trio.protocol import KEYFRAME, Packet, TrackInfo

MICROSECONDS = Fraction(1, 1_000_000)
STEP = 33_333

_ENCODERS = {
    "h264": ("libx264", {"preset": "superfast", "tune": "zerolatency", "profile": "baseline", "g": "1000"}),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    "av1": ("libsvtav1", {"preset": "12", "svtav1-params": "rtc=1:lp=1:pred-struct=1"}),
}


def gray(number: int) -> int:
    """The grey level of picture `number`, distinct enough from its neighbours to survive any codec."""
    return 32 + number % 12 * 16


def picture(number: int, width: int, height: int) -> np.ndarray:
    return np.full((height, width, 3), gray(number), np.uint8)


def video(
    codec: str, count: int, *, size: tuple[int, int] = (64, 48), index: int = 0, begin: int = 0, first: int = 0
) -> tuple[TrackInfo, list[Packet]]:
    """A track and `count` packets of it from `begin` (microseconds) on; the first is a keyframe."""
    width, height = size
    track = TrackInfo(index, f"video_{index}", "video", "out", codec, width=width, height=height)
    if codec == "jpeg":
        pieces = [(simplejpeg.encode_jpeg(picture(i, *size)), True) for i in range(first, first + count)]
    elif codec == "raw":
        pieces = [(picture(i, *size).tobytes(), True) for i in range(first, first + count)]
    else:
        pieces = _encoded(codec, range(first, first + count), width, height)
    assert len(pieces) == count
    return track, [
        Packet(index, first + i, begin + i * STEP, KEYFRAME if key else 0, None, i, {}, memoryview(data))
        for i, (data, key) in enumerate(pieces)
    ]


def _encoded(codec: str, numbers: Sequence[int], width: int, height: int) -> list[tuple[bytes, bool]]:
    name, options = _ENCODERS[codec]
    encoder = av.CodecContext.create(name, "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base, encoder.framerate, encoder.thread_count = MICROSECONDS, Fraction(30), 1
    encoder.options = options
    with ordinary_scheduling():
        encoder.open()
    packets = []
    for at, number in enumerate(numbers):
        frame = av.VideoFrame.from_ndarray(picture(number, width, height), "rgb24")
        frame.pts, frame.time_base = at * STEP, MICROSECONDS
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [(bytes(packet), packet.is_keyframe) for packet in packets]


def sound(
    count: int, *, rate: int = 48_000, index: int = 1, begin: int = 0, block: float = 0.04, seconds_on: float = 1.0
) -> tuple[TrackInfo, list[Packet]]:
    """Blocks of a loud 440 Hz tone; silent from `seconds_on` on."""
    track = TrackInfo(index, f"sound_{index}", "audio", "out", "pcm_s16le", sample_rate=rate)
    packets = []
    for i in range(count):
        at = np.arange(round(i * block * rate), round((i + 1) * block * rate)) / rate
        samples = np.where(at < seconds_on, 12_000 * np.sin(2 * np.pi * 440 * at), 0).astype("<i2")
        pts = begin + round(i * block * 1e6)
        packets.append(Packet(index, i, pts, KEYFRAME, None, i, {}, memoryview(samples.tobytes())))
    return track, packets


def opus(count: int, *, index: int = 1, begin: int = 0) -> tuple[TrackInfo, list[Packet]]:
    """The tone as Opus: each packet has the two Opus frames that a block of 40 ms completes."""
    encoder = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 48_000, "mono", "s16"
    track = TrackInfo(index, f"sound_{index}", "audio", "out", "opus", codec_string="opus", sample_rate=48_000)
    _, blocks = sound(count, begin=begin)
    packets = []
    for i, block in enumerate(blocks):
        frame = av.AudioFrame.from_ndarray(np.frombuffer(block.payload, "<i2").reshape(1, -1), "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, i * 1920, Fraction(1, 48_000)
        frames = [bytes(packet) for packet in encoder.encode(frame)]
        meta = {"sizes": [len(data) for data in frames]}
        packets.append(Packet(index, i, block.pts_us, KEYFRAME, None, i, meta, memoryview(b"".join(frames))))
    return track, packets


@dataclass
class Seen:
    """The contents of a file as a player sees them: times and pictures of each video track, and samples of sound."""

    codecs: list[str]
    times: list[list[float]]
    pictures: list[list[np.ndarray]]
    sound: np.ndarray | None = None
    rate: int = 0

    def grays(self, track: int = 0) -> list[int]:
        """The numbers of the pictures, taken modulo 12."""
        return [round((float(shown.mean()) - 32) / 16) for shown in self.pictures[track]]


def look(path: Path) -> Seen:
    seen = Seen([], [], [])
    with av.open(str(path)) as file:
        kinds = [(stream.index, stream.type, stream.codec_context.codec.canonical_name) for stream in file.streams]
    for index, kind, codec in kinds:
        with av.open(str(path)) as file:
            frames = list(file.decode(file.streams[index]))
            seen.codecs.append(codec)
            if kind == "video":
                seen.times.append([round(float(frame.pts * frame.time_base), 6) for frame in frames])
                seen.pictures.append([frame.to_ndarray(format="rgb24") for frame in frames])
            else:
                seen.rate = file.streams[index].sample_rate
                if not frames:
                    continue
                begin = frames[0].pts * frame_base(frames[0])
                pad = np.zeros(max(0, round(begin * seen.rate)), np.float32)
                seen.sound = np.concatenate([pad, *(f.to_ndarray().reshape(-1).astype(np.float32) for f in frames)])
    return seen


def frame_base(frame: av.AudioFrame) -> Fraction:
    return frame.time_base or Fraction(1, frame.sample_rate)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
