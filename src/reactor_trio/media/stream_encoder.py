"""The common part of all encoders with inter frames: an FFmpeg encoder through PyAV, one packet for each picture.

A codec context is opened with the first frame, and reopened for another size or when the bitrate plan says so. The first
frame after an opening is a keyframe. All other keyframes are requested ones.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.bitrates import Opening, Plan, full_bitrate
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.codec_strings import avc_string
from reactor_trio.media.conversion import Converter, Size, coded_size, i420_frame, scaled_size
from reactor_trio.media.device_conversion import DeviceConverter, Layout
from reactor_trio.media.device_frames import DeviceFrames
from reactor_trio.media.encoders import Encoded, Encoder
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.media.scheduling import ordinary_scheduling
from reactor_trio.pacing import Quality
from reactor_trio.protocol import Color, TrackInfo

if TYPE_CHECKING:
    import av

log = logging.getLogger("reactor_trio.media")

#: the colour of every YUV codec, here and in the bitstream: 601 matrix, 709 primaries, sRGB's transfer
YUV_COLOR = Color(matrix="smpte170m", primaries="bt709", transfer="iec61966-2-1", full_range=False)

#: frames between automatic keyframes: so many that there are none
GOP_SIZE = 1 << 20

MICROSECOND = Fraction(1, 1_000_000)


class StreamEncoder(Encoder):
    """Encodes with one of FFmpeg's encoders.

    Attributes:
        encoder_name: FFmpeg's name of the encoder.
        pixel_format: FFmpeg's name of the pixel format that the encoder takes.
        wire_format: the pixel format of the coded samples, as clients read it.
        color: the colour space of the coded samples.
        min_side: the smallest coded width and height.
    """

    encoder_name: ClassVar[str]
    pixel_format: ClassVar[str] = "yuv420p"
    wire_format: ClassVar[str] = "ycbcr420"
    color: ClassVar[Color] = YUV_COLOR
    min_side: ClassVar[int] = 16

    def __init__(self, settings: CodecSettings, plan: Plan) -> None:
        self.implementation = self.encoder_name
        self.settings = settings
        self._plan = plan
        self.target: Quality | None = None
        self._keyframe_wanted = False
        self._context: av.VideoCodecContext | None = None
        self._sizes: tuple[Size, Size] | None = None
        self._converter: Converter | None = None
        self._device_converter: DeviceConverter | None = None
        self._device_converts = True
        self._string: str | None = None
        self._time = 0.0

    # ---- what a subclass defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def options(self, opening: Opening) -> dict[str, str]:
        """FFmpeg's options for the encoder."""

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str | None:
        """The WebCodecs string of the open encoder; `packet` is its first keyframe. H.264 has it in the parameter set."""
        return avc_string(packet)

    def sizes(self, width: int, height: int, scale: float) -> tuple[Size, Size]:
        """The size that is sent and the size that is coded, for a frame of `width` x `height`."""
        size = scaled_size(width, height, scale)
        return size, coded_size(size, self.min_side)

    def picture(self, frame: FrameHandle, size: Size, coded: Size) -> av.VideoFrame:
        """The frame as the codec takes it: scaled to `size`, padded to `coded`. The next call overwrites the result.

        A frame on a device is converted there, unless its RGB has been fetched for another encoder or a recording.
        """
        if isinstance(frame, DeviceFrames) and not frame.fetched and self._device_converts:
            try:
                return i420_frame(self.converter_of(frame, size, coded, "i420").fetch(frame))
            except Exception as error:  # a driver may raise anything
                log.warning("a device cannot convert frames to YUV, the host does: %s: %s", type(error).__name__, error)
                self._device_converts, self._device_converter = False, None
        if self._converter is None or (self._converter.size, self._converter.coded) != (size, coded):
            self._converter = Converter(size, coded)
        return self._converter.convert(to_host(frame))

    def converter_of(self, frame: DeviceFrames, size: Size, coded: Size, layout: Layout) -> DeviceConverter:
        """The converter for a frame on a device; the last one, if it fits."""
        wanted = size, coded, frame.tensor.device, layout
        if self._device_converter is None or self._device_converter.made_for != wanted:
            self._device_converter = DeviceConverter(*wanted)
        return self._device_converter

    def create(self) -> av.VideoCodecContext:
        """Create a context of the encoder, not yet opened."""
        import av

        return cast("av.VideoCodecContext", av.CodecContext.create(self.encoder_name, "w"))

    # ---- Encoder ------------------------------------------------------------------------------------------------------

    def configure(self, target: Quality) -> None:
        """Aim at a target. A keyframe follows if the bitrate is above the ceiling or cannot change while the encoder is
        open.
        """
        self.target = target

    def request_keyframe(self) -> None:
        """Make the next frame a keyframe; a frame that is being encoded does not count."""
        self._keyframe_wanted = True

    def encode(self, frame: FrameHandle) -> Encoded:
        """Convert the frame, open the encoder if needed, and encode."""
        from av.video.frame import PictureType

        keyframe, self._keyframe_wanted = self._keyframe_wanted, False
        height, width = frame.shape[:2]
        full = full_bitrate(self.codec, width, height, self.target.fps if self.target else 30, self.settings)
        target = self.target or Quality(full, 30)
        size, coded = self.sizes(width, height, target.scale)
        if (size, coded) != self._sizes:
            self._plan.forget()
            self._sizes = size, coded
        opening = self._plan.decide(target, full, keyframe)
        if opening is not None:
            self.open(coded, opening)
        assert self._context is not None
        live = self._plan.live(target)
        if live is not None and opening is None and live != self._context.bit_rate:  # the first frame may use the ceiling
            self._context.bit_rate = live
        picture = self.picture(frame, size, coded)
        picture.pts, picture.time_base = round(self._time * 1e6), MICROSECOND
        picture.pict_type = PictureType.I if keyframe or opening is not None else PictureType.NONE
        self._time += 1 / target.fps
        packets = self._context.encode(picture)
        if len(packets) != 1:
            raise RuntimeError(f"{self.implementation} gave {len(packets)} packets for a frame: please report this")
        payload = memoryview(packets[0])
        if opening is not None:
            self._string = self.codec_string(payload, coded, opening)
        return Encoded(payload, packets[0].is_keyframe, size)

    def close(self) -> None:
        """Flush and release the encoder: some encoders complain if they are not flushed."""
        self._flush()
        self._sizes = None

    def abandon(self) -> None:
        """Close an encoder that may have failed; errors of closing it are logged and ignored."""
        try:
            self.close()
        except Exception as error:  # it has failed already; a second error adds nothing
            log.debug("closing %s: %s", self.implementation, error)

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe the track; `codec_string` is None before the first frame, which sets profile and level."""
        width, height = size or (None, None)
        coded = self._sizes[1] if self._sizes is not None and size == self._sizes[0] else size
        coded_width, coded_height = (None, None) if coded is None or coded == size else coded
        return TrackInfo(
            index, spec.name, "video", "out", self.codec, codec_string=self._string if size else None,
            width=width, height=height, coded_width=coded_width, coded_height=coded_height,
            pixel_format=self.wire_format, color=self.color,
        )  # fmt: skip

    def _flush(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            context.encode(None)

    def open(self, coded: Size, opening: Opening) -> None:
        """Open the encoder. Raises FFmpeg's error if it cannot be opened."""
        self._flush()
        context = self.create()
        context.width, context.height = coded
        context.pix_fmt = self.pixel_format
        context.thread_count = 1
        context.max_b_frames = 0
        context.gop_size = GOP_SIZE
        context.time_base = MICROSECOND
        context.framerate = Fraction(opening.fps)
        context.bit_rate = opening.bitrate
        # the colour space in the bitstream, in the code points of ITU-T H.273
        context.colorspace = {"smpte170m": 6, "rgb": 0}[self.color.matrix]
        context.color_primaries, context.color_trc = 1, 13
        context.color_range = 2 if self.color.full_range else 1
        context.options = self.options(opening)
        with ordinary_scheduling():
            context.open()
        self._context = context
