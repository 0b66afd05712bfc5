"""H.264 by x264: Annex B, parameter sets on each keyframe, its bitrate changed while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactor_trio.media.bitrates import FixedPlan, LivePlan, Opening
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.codec_strings import avc_string
from reactor_trio.media.conversion import Size
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.media.stream_encoder import StreamEncoder
from reactor_trio.protocol import Color

if TYPE_CHECKING:
    import av


#: bits below which the buffer has no room for any keyframe, and x264 makes it grey
LEAST_BUFFER = 64_000
#: of the buffer, that is there for the first keyframe. On a link that turns out slow it is a third as long under way as
#: with x264's own 0.9; elsewhere the pictures are the same from the second on, unless there are too few bits.
FIRST, LEAST_FIRST = 0.3, 100_000

#: ours, by x264's preset and parameters
_PRESETS = {"realtime": ("ultrafast", ":deblock=0,0:aq-mode=1")}


class X264Encoder(StreamEncoder):
    """Constrained baseline, no delay; x264 itself chooses the lowest level that fits size and rate."""

    codec = "h264"
    encoder_name = "libx264"

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, LivePlan())

    def options(self, opening: Opening) -> dict[str, str]:
        """Constant bitrate, which is what lets it be changed; the buffer bounds a keyframe to a quarter of a second."""
        buffer = max(opening.bitrate // 4, opening.bitrate // opening.fps, LEAST_BUFFER)
        first = min(0.9, max(FIRST, LEAST_FIRST / buffer))
        preset, besides = _PRESETS.get(self.settings.preset, (self.settings.preset, ""))
        return {
            "preset": preset, "tune": "zerolatency", "profile": "baseline", "sc_threshold": "0",
            "maxrate": str(opening.bitrate), "bufsize": str(buffer), "x264-params": f"vbv-init={first:.3f}{besides}",
        }  # fmt: skip

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str | None:
        """As the parameter set says."""
        return avc_string(packet)


class LosslessEncoder(StreamEncoder):
    """H.264 High 4:4:4 Predictive of RGB, every bit as it was; not scaled and not bound to a bitrate."""

    codec = "lossless"
    encoder_name = "libx264rgb"
    pixel_format = "rgb24"
    wire_format = "rgb24"
    color = Color()

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, FixedPlan())

    def options(self, opening: Opening) -> dict[str, str]:
        """Quantiser 0 is lossless."""
        return {"preset": "ultrafast", "tune": "zerolatency", "qp": "0", "sc_threshold": "0"}

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str | None:
        """As the parameter set says."""
        return avc_string(packet)

    def sizes(self, width: int, height: int, scale: float) -> tuple[Size, Size]:
        """As they are."""
        return (width, height), (width, height)

    def prepare(self, size: Size, coded: Size) -> None:
        """Nothing is converted."""

    def picture(self, frame: FrameHandle) -> av.VideoFrame:
        """The frame itself."""
        import av
        import numpy as np

        return av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(to_host(frame)), "rgb24")
