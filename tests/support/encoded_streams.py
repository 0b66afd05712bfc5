"""Inter-frame streams, made by PyAV, and pictures that show their number."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

from reactor_trio.media.scheduling import ordinary_scheduling

_ENCODERS = {
    "h264": (
        "libx264",
        {"preset": "superfast", "tune": "zerolatency", "profile": "baseline", "forced-idr": "1", "sc_threshold": "0"},
    ),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "12", "lag-in-frames": "0"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    "av1": ("libsvtav1", {"preset": "10", "crf": "20", "svtav1-params": "rtc=1:lp=1:pred-struct=1"}),
    "lossless": ("libx264rgb", {"preset": "ultrafast", "tune": "zerolatency", "qp": "0", "forced-idr": "1"}),
}


def numbered(count, width, height, start=0):
    """Pictures of `count` levels of grey, each with its number in 6 bits along the top."""
    pictures = []
    for number in range(start, start + count):
        picture = np.full((height, width, 3), 60 + 8 * (number % 16), np.uint8)
        for bit in range(6):
            picture[:16, bit * 10 : bit * 10 + 10] = 235 if number >> bit & 1 else 20
        picture[24:32, :] = [200, 40, 40]
        pictures.append(picture)
    return pictures


def number_of(picture):
    return sum((picture[8, bit * 10 + 5].mean() > 128) << bit for bit in range(6))


def striped(colours):
    picture = np.zeros((48, 16 * len(colours), 3), np.uint8)
    for i, colour in enumerate(colours):
        picture[:, 16 * i : 16 * i + 16] = colour
    return picture


def encoded(codec, pictures, keys=(0,), matrix="smpte170m", full_range=False):
    """Return (packet, is keyframe) for each picture; the pictures of the numbers `keys` are keyframes."""
    name, options = _ENCODERS[codec]
    height, width = pictures[0].shape[:2]
    context = av.CodecContext.create(name, "w")
    context.width, context.height = width, height
    context.pix_fmt = "rgb24" if codec == "lossless" else "yuv420p"
    context.time_base, context.framerate = Fraction(1, 1_000_000), Fraction(30)
    context.gop_size, context.max_b_frames, context.thread_count = 10_000, 0, 1
    if codec != "av1":
        context.bit_rate = 2_000_000
    context.options = options
    with ordinary_scheduling():
        context.open()
    packets = []
    for number, picture in enumerate(pictures):
        frame = av.VideoFrame.from_ndarray(picture, "rgb24")
        if codec != "lossless":
            frame = frame.reformat(
                format="yuv420p",
                dst_colorspace=Colorspace.ITU709 if matrix == "bt709" else Colorspace.ITU601,
                dst_color_range=ColorRange.JPEG if full_range else ColorRange.MPEG,
            )
        frame.pts = number * 33_333
        frame.pict_type = av.video.frame.PictureType.I if number in keys else av.video.frame.PictureType.NONE
        (packet,) = context.encode(frame)
        packets.append((bytes(packet), bool(packet.is_keyframe)))
    assert [key for _, key in packets] == [number in keys for number in range(len(pictures))]
    return packets


def opus(samples):
    """Packets of 20 ms."""
    context = av.CodecContext.create("libopus", "w")
    context.sample_rate, context.layout, context.format, context.bit_rate = 48_000, "mono", "s16", 96_000
    packets = []
    for begin in range(0, len(samples), 960):
        frame = av.AudioFrame.from_ndarray(samples[None, begin : begin + 960], format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, begin
        packets += [bytes(packet) for packet in context.encode(frame)]
    return packets
