"""H.264 by x264: Annex B, parameter sets in each keyframe, a bitrate that changes while the encoder is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactor_trio.media.bitrates import LivePlan, Opening, Plan
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.conversion import Size
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.media.stream_encoder import StreamEncoder
from reactor_trio.protocol import Color

if TYPE_CHECKING:
    import av


#: the smallest buffer in bits; in a smaller one no keyframe fits, and x264 makes it grey
MIN_BUFFER = 64_000
#: The part of the buffer that the first keyframe may use, and the least number of bits. On a slow link that keyframe takes a
#: third of the time that it takes with x264's own 0.9. Elsewhere the later pictures are the same, unless bits are scarce.
FIRST_SHARE, FIRST_BITS = 0.3, 100_000

#: our own presets: x264's preset, and further parameters
_PRESETS = {"realtime": ("ultrafast", ":deblock=0,0:aq-mode=1")}


class X264Encoder(StreamEncoder):
    """H.264 by x264: constrained baseline profile, no delay. x264 chooses the lowest level that fits size and rate."""

    codec = "h264"
    encoder_name = "libx264"

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, LivePlan())

    def options(self, opening: Opening) -> dict[str, str]:
        """A constant bitrate, which alone can change while x264 is open; the buffer bounds a keyframe to a quarter of a
        second.
        """
        buffer = max(opening.bitrate // 4, opening.bitrate // opening.fps, MIN_BUFFER)
        first = min(0.9, max(FIRST_SHARE, FIRST_BITS / buffer))
        preset, besides = _PRESETS.get(self.settings.preset, (self.settings.preset, ""))
        return {
            "preset": preset, "tune": "zerolatency", "profile": "baseline", "sc_threshold": "0",
            "maxrate": str(opening.bitrate), "bufsize": str(buffer), "x264-params": f"vbv-init={first:.3f}{besides}",
        }  # fmt: skip


class LosslessEncoder(StreamEncoder):
    """Lossless H.264 High 4:4:4 Predictive in RGB, neither scaled nor bound to a bitrate."""

    codec = "lossless"
    encoder_name = "libx264rgb"
    pixel_format = "rgb24"
    wire_format = "rgb24"
    color = Color()

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, Plan())

    def options(self, opening: Opening) -> dict[str, str]:
        """Quantiser 0 is lossless."""
        return {"preset": "ultrafast", "tune": "zerolatency", "qp": "0", "sc_threshold": "0"}

    def sizes(self, width: int, height: int, scale: float) -> tuple[Size, Size]:
        """Neither scale nor pad."""
        return (width, height), (width, height)

    def picture(self, frame: FrameHandle, size: Size, coded: Size) -> av.VideoFrame:
        """Wrap the frame itself."""
        import av
        import numpy as np

        return av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(to_host(frame)), "rgb24")
