"""H.264 by an NVIDIA card's encoder, for frames that lie on the card, and the choice between NVENC and x264.

A frame is converted to NV12 on the card, on a stream beside the model's, and handed to the encoder without a copy (DLPack).
Only the packets come to the host. If PyAV cannot do that, or if a frame lies in the host's memory, FFmpeg uploads it.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, TypeGuard, cast

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.bitrates import LivePlan, Opening
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.conversion import Size
from reactor_trio.media.device_frames import DeviceFrames
from reactor_trio.media.encoders import Encoded, Encoder
from reactor_trio.media.frames import FrameHandle
from reactor_trio.media.h264 import X264Encoder
from reactor_trio.media.stream_encoder import StreamEncoder
from reactor_trio.pacing import Quality
from reactor_trio.protocol import TrackInfo

if TYPE_CHECKING:
    import av

log = logging.getLogger("reactor_trio.media")

#: the smallest width or height that all generations of the encoder accept
MIN_SIDE = 160


def lies_on_card(frame: FrameHandle) -> TypeGuard[DeviceFrames]:
    """Whether the frame is in the memory of a card that may have the encoder."""
    return isinstance(frame, DeviceFrames) and frame.tensor.device.type == "cuda"


class NvencEncoder(StreamEncoder):
    """H.264 by NVENC: constrained baseline profile, no delay."""

    codec = "h264"
    encoder_name = "h264_nvenc"
    pixel_format = "nv12"
    min_side = MIN_SIDE

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, LivePlan())
        self._device: int | None = None

    def options(self, opening: Opening) -> dict[str, str]:
        """As for x264: a constant bitrate, which can change while the encoder runs, and a buffer that bounds a keyframe."""
        return {
            "preset": "p3", "tune": "ull", "profile": "baseline", "rc": "cbr", "zerolatency": "1", "delay": "0",
            "forced-idr": "1", "no-scenecut": "1", "maxrate": str(opening.bitrate),
            "bufsize": str(max(opening.bitrate // 4, opening.bitrate // opening.fps)),
        }  # fmt: skip

    def encode(self, frame: FrameHandle) -> Encoded:
        """Encode a frame. The first frame selects the card on which the encoder is opened."""
        if self._context is None and lies_on_card(frame) and _takes_dlpack():
            self._device = frame.tensor.device.index or 0
        return super().encode(frame)

    def create(self) -> av.VideoCodecContext:
        """Create the encoder on the card of the frames, in the CUDA context that all libraries of a process share."""
        import av

        if self._device is None:
            return super().create()
        from av.codec.hwaccel import HWAccel

        card = HWAccel("cuda", str(self._device), allow_software_fallback=False, options={"primary_ctx": "1"})
        return cast("av.VideoCodecContext", av.CodecContext.create(self.encoder_name, "w", hwaccel=card))

    def picture(self, frame: FrameHandle, size: Size, coded: Size) -> av.VideoFrame:
        """Convert the frame where it lies."""
        import av

        if self._device is None or not lies_on_card(frame):
            return super().picture(frame, size, coded).reformat(format="nv12")
        nv12 = self.converter_of(frame, size, coded, "nv12").convert(frame)
        return av.VideoFrame.from_dlpack((nv12[: coded[1]], nv12[coded[1] :]), format="nv12")


class H264Encoder(Encoder):
    """H.264 by the encoder that the settings choose. "auto" starts with x264 and changes to NVENC at the first frame that
    lies on a card whose encoder opens.

    If NVENC fails, x264 encodes from then on, beginning with a keyframe; a warning gives the reason.
    """

    codec = "h264"

    def __init__(self, settings: CodecSettings) -> None:
        self._settings = settings
        self._card_allowed = settings.h264 != "libx264"
        self._encoder: StreamEncoder = NvencEncoder(settings) if settings.h264 == "h264_nvenc" else X264Encoder(settings)
        self.implementation = self._encoder.implementation

    def encode(self, frame: FrameHandle) -> Encoded:
        """Encode with the active encoder."""
        if self._card_allowed and isinstance(self._encoder, X264Encoder) and lies_on_card(frame):
            if (refusal := nvenc_refusal()) is None:
                self._change(NvencEncoder(self._settings))
            else:
                self._card_allowed = False
                _warn_refused(refusal)
        try:
            return self._encoder.encode(frame)
        except Exception as error:  # a driver may raise anything
            if isinstance(self._encoder, X264Encoder):
                raise
            log.warning("h264_nvenc failed, libx264 goes on: %s: %s", type(error).__name__, error)
            self._card_allowed = False
            self._change(X264Encoder(self._settings))
            return self._encoder.encode(frame)

    def request_keyframe(self) -> None:
        """Make the next frame a keyframe."""
        self._encoder.request_keyframe()

    def configure(self, target: Quality) -> None:
        """Configure the active encoder; a later one takes the target over."""
        self._encoder.configure(target)

    def close(self) -> None:
        """Release the encoder, and with it the card."""
        self._encoder.close()

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe the track as the active encoder codes it."""
        return self._encoder.describe(index, spec, size)

    def _change(self, encoder: StreamEncoder) -> None:
        if self._encoder.target is not None:
            encoder.configure(self._encoder.target)
        self._encoder.abandon()
        self._encoder = encoder
        self.implementation = encoder.implementation


@cache
def nvenc_refusal() -> str | None:
    """Why h264_nvenc cannot be opened on this machine, or None if it can. The answer is cached."""
    try:
        encoder = NvencEncoder(CodecSettings())
        encoder.open((640, 480), Opening(1_000_000, 30))
        encoder.close()
    except Exception as error:  # a driver may raise anything
        return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"  # the whole text has all options
    return None


@cache
def _warn_refused(refusal: str) -> None:
    """Warn once per process, since every encoder would repeat it."""
    log.warning("frames lie on a card whose encoder cannot be opened, libx264 encodes them: %s", refusal)


@cache
def _takes_dlpack() -> bool:
    import av
    from av.codec import hwaccel

    return hasattr(av.VideoFrame, "from_dlpack") and hasattr(hwaccel, "HWAccel")
