"""VP8 and VP9 by libvpx, and AV1 by SVT-AV1: a new bitrate means to reopen the encoder."""

from __future__ import annotations

import os

from reactor_trio.media.bitrates import Opening, SteppedPlan
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.codec_strings import av1_string, vp9_string
from reactor_trio.media.conversion import Size
from reactor_trio.media.stream_encoder import StreamEncoder


class _VpxEncoder(StreamEncoder):
    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, SteppedPlan(timed=True))

    def options(self, opening: Opening) -> dict[str, str]:
        """A constant bitrate without look-ahead; a keyframe takes at most what a quarter of a second carries."""
        rate = str(opening.bitrate)
        return {
            "deadline": "realtime", "lag-in-frames": "0", "minrate": rate, "maxrate": rate,
            "bufsize": str(opening.bitrate // 2), "max-intra-rate": str(max(100, 25 * opening.fps)),
        }  # fmt: skip


class Vp8Encoder(_VpxEncoder):
    """VP8 by libvpx."""

    codec = "vp8"
    encoder_name = "libvpx"

    def options(self, opening: Opening) -> dict[str, str]:
        """The fastest setting that still looks good. As it is positive, libvpx lowers its effort while the processor is
        busy.
        """
        return super().options(opening) | {"cpu-used": "12"}

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str:
        """Constant: VP8 has neither profiles nor levels."""
        return "vp8"


class Vp9Encoder(_VpxEncoder):
    """VP9 by libvpx, profile 0."""

    codec = "vp9"
    encoder_name = "libvpx-vp9"

    def options(self, opening: Opening) -> dict[str, str]:
        """The fastest setting that FFmpeg allows."""
        return super().options(opening) | {"cpu-used": "8", "row-mt": "0"}

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str:
        """Take the level from the tables, for at least 30 frames per second: the divisor may fall without a reopening."""
        return vp9_string(coded, max(opening.fps, 30), opening.bitrate)


class Av1Encoder(StreamEncoder):
    """AV1 by SVT-AV1, Main profile; the library encodes in a thread of its own."""

    codec = "av1"
    encoder_name = "libsvtav1"
    min_side = 64

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__(settings, SteppedPlan(timed=False))

    def options(self, opening: Opening) -> dict[str, str]:
        """Real time, one thread, constant bitrate, prediction from earlier frames only.

        Presets 12 and 10 leave changes of flat areas out of most frames; preset 11 does not.
        """
        os.environ.setdefault("SVT_LOG", "1")  # otherwise the library writes its settings to standard error
        return {"preset": "11", "svtav1-params": "rtc=1:lp=1:pred-struct=1:rc=2:scd=0"}

    def codec_string(self, packet: memoryview, coded: Size, opening: Opening) -> str:
        """Take the level from the tables."""
        return av1_string(coded, opening.fps, opening.bitrate)
