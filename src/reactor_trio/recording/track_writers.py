"""The tracks of a file: from packets of the wire to packets of a container.

Compressed video and Opus are copied. Raw pictures and samples of sound are encoded here, once. A container's header needs
facts that the wire leaves in the bitstream (parameter sets, sequence headers), so FFmpeg's own parser reads the first
keyframe, and the header is made from what it finds.

Times are microseconds since the start of the file. A player plays sound without looking at the clock, so gaps in the sound
are filled with silence; otherwise everything after a gap would come too early.
"""

from __future__ import annotations

import io
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.recording.containers import Container

if TYPE_CHECKING:
    import av
    from av.container import InputContainer, OutputContainer

_MICROSECONDS = Fraction(1, 1_000_000)
_FOURCC = {"vp8": b"VP80", "vp9": b"VP90", "av1": b"AV01"}
_AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
#: seconds by which sound may be late before silence is inserted
_GAP = 0.01
#: an Opus packet of 20 ms of silence, one channel (RFC 6716, section 3.1)
_OPUS_SILENCE = b"\xf8\xff\xfe"
_OPUS_FRAME_US = 20_000


class TrackWriter(ABC):
    """Turns the packets of one track into packets of a container."""

    @abstractmethod
    def write(self, packet: Packet, at_us: int) -> Iterator[av.Packet[Any]]:
        """The container's packets for `packet`, which is presented at `at_us`."""

    def finish(self) -> Iterator[av.Packet[Any]]:
        """The packets that were held back."""
        return iter(())


class CopiedVideo(TrackWriter):
    """Copies compressed pictures; `keyframe` is the first of them."""

    def __init__(self, output: OutputContainer, track: TrackInfo, keyframe: memoryview) -> None:
        with _parsed(track, keyframe) as parsed:
            self._stream = output.add_stream_from_template(parsed.streams.video[0], opaque=True)
        self._stream.time_base = _MICROSECONDS
        self._last = -1

    def write(self, packet: Packet, at_us: int) -> Iterator[av.Packet[Any]]:
        """One packet for each. The times of a file must rise."""
        self._last = max(at_us, self._last + 1)
        yield _copied(packet.payload, self._stream, self._last, packet.keyframe)


_PICTURES = {
    "libx264": {"preset": "superfast", "tune": "zerolatency", "crf": "18", "g": "120"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "6", "lag-in-frames": "0", "crf": "24", "b": "0", "g": "120"},
}


class EncodedPictures(TrackWriter):
    """Encodes raw RGB pictures as H.264 or VP9: in 4:2:0, or in 4:4:4 if a side is odd, which 4:2:0 does not allow."""

    def __init__(self, output: OutputContainer, track: TrackInfo, encoder: str) -> None:
        assert track.width is not None
        assert track.height is not None
        self._size = track.height, track.width
        even = not (track.width % 2 or track.height % 2)
        self._stream: Any = output.add_stream(encoder, rate=30, options=_PICTURES[encoder])
        self._stream.time_base = _MICROSECONDS
        context: Any = self._stream.codec_context
        context.time_base = _MICROSECONDS
        context.width, context.height, context.pix_fmt = track.width, track.height, "yuv420p" if even else "yuv444p"
        # BT.601 matrix, BT.709 primaries, sRGB transfer, limited range: as the wire's own YUV codecs are tagged
        context.colorspace, context.color_primaries, context.color_trc, context.color_range = 6, 1, 13, 1
        context.thread_count = 1
        self._last = -1

    def write(self, packet: Packet, at_us: int) -> Iterator[av.Packet[Any]]:
        """The picture, encoded without delay."""
        import av
        from av.video.reformatter import ColorRange, Colorspace

        self._last = max(at_us, self._last + 1)
        picture = np.frombuffer(packet.payload, np.uint8).reshape(*self._size, 3)
        frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(
            format=self._stream.codec_context.pix_fmt, dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG
        )
        frame.pts, frame.time_base = self._last, _MICROSECONDS
        yield from self._stream.encode(frame)

    def finish(self) -> Iterator[av.Packet[Any]]:
        """Flush the encoder, which holds nothing back."""
        yield from self._stream.encode(None)


class EncodedSound(TrackWriter):
    """Encodes samples as AAC or Opus."""

    def __init__(self, output: OutputContainer, track: TrackInfo, container: Container) -> None:
        assert track.sample_rate is not None
        self._rate = track.sample_rate
        rate = track.sample_rate if container.sound == "aac" and track.sample_rate in _AAC_RATES else 48_000
        self._stream: Any = output.add_stream(container.sound, rate=rate, layout="mono")
        self._stream.bit_rate = 96_000
        self._samples = 0

    def write(self, packet: Packet, at_us: int) -> Iterator[av.Packet[Any]]:
        """The packets that the block completes, after silence for a gap before it."""
        at = round(at_us * self._rate / 1e6)
        samples = np.frombuffer(packet.payload, "<i2")
        if at < 0:
            samples, at = samples[-at:], 0
        if at - self._samples > _GAP * self._rate:
            while self._samples < at:  # a second at a time: a gap may be long
                yield from self._encode(np.zeros(min(self._rate, at - self._samples), np.int16))
        if samples.size:
            yield from self._encode(samples)

    def finish(self) -> Iterator[av.Packet[Any]]:
        """The last, incomplete frame."""
        yield from _from_zero(self._stream.encode(None))

    def _encode(self, samples: np.ndarray[Any, Any]) -> Iterator[av.Packet[Any]]:
        import av

        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "s16", "mono")
        frame.sample_rate = self._rate
        frame.pts, frame.time_base = self._samples, Fraction(1, self._rate)
        self._samples += samples.size
        yield from _from_zero(self._stream.encode(frame))


class CopiedOpus(TrackWriter):
    """Copies Opus packets, as frames of 20 ms without gaps."""

    def __init__(self, output: OutputContainer) -> None:
        self._stream: Any = output.add_stream("libopus", rate=48_000, layout="mono")
        self._frames = 0

    def write(self, packet: Packet, at_us: int) -> Iterator[av.Packet[Any]]:
        """The frames in `packet`, after silence for a gap before them."""
        sizes = packet.meta.get("sizes", ())
        missing = round(at_us / _OPUS_FRAME_US) - self._frames if sizes else 0
        for _ in range(missing):
            yield self._frame(_OPUS_SILENCE)
        begin = 0
        for size in sizes:
            yield self._frame(packet.payload[begin : begin + size])
            begin += size

    def _frame(self, data: bytes | memoryview) -> av.Packet[Any]:
        copied = _copied(data, self._stream, self._frames * _OPUS_FRAME_US, True)
        copied.duration = _OPUS_FRAME_US
        self._frames += 1
        return copied


def open_writer(output: OutputContainer, container: Container, track: TrackInfo, keyframe: Packet | None) -> TrackWriter:
    """Make the writer of `track` in `output`. Video that is copied needs its first keyframe."""
    if track.codec == "raw":
        return EncodedPictures(output, track, container.pictures)
    if track.codec == "opus":
        return CopiedOpus(output)
    if track.kind == "audio":
        return EncodedSound(output, track, container)
    assert keyframe is not None
    return CopiedVideo(output, track, keyframe.payload)


def _copied(data: bytes | memoryview, stream: Any, at_us: int, keyframe: bool) -> av.Packet[Any]:
    import av

    copied: av.Packet[Any] = av.Packet(data)  # type: ignore[arg-type]  # takes any buffer
    copied.pts = copied.dts = at_us
    copied.time_base = _MICROSECONDS
    copied.is_keyframe = keyframe
    copied.stream = stream
    return copied


def _from_zero(packets: list[av.Packet[Any]]) -> Iterator[av.Packet[Any]]:
    """`packets` without the encoder's lead-in before time 0, which a fragmented file cannot express."""
    return (packet for packet in packets if packet.pts is not None and packet.pts >= 0)


def _parsed(track: TrackInfo, keyframe: memoryview) -> InputContainer:
    """A file in memory that holds only the keyframe, opened so that FFmpeg parses it. Raises av.error.FFmpegError."""
    import av

    fourcc = _FOURCC.get(track.codec or "")
    if fourcc is None:
        return av.open(io.BytesIO(keyframe), "r", format="mjpeg" if track.codec == "jpeg" else "h264")
    size = track.coded_width or track.width or 0, track.coded_height or track.height or 0
    head = b"DKIF" + struct.pack("<HH4sHHIIII", 0, 32, fourcc, *size, 30, 1, 1, 0)
    return av.open(io.BytesIO(head + struct.pack("<IQ", keyframe.nbytes, 0) + keyframe), "r", format="ivf")
