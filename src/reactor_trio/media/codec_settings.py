"""How frames are encoded: what the manifest's `runtime.codec` says."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class CodecSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which encoders run, and how well they may do it.

    Attributes:
        jpeg_quality: of JPEG frames, 1 to 100.
        h264: what encodes H.264; "auto" is NVENC for frames that lie on a device where it opens, else libx264.
        preset: of libx264; `realtime` is its `ultrafast` with the two things that are seen most when they lack, the
            deblocking filter and adaptive quantisation.
        bitrate: the most that a video track takes, in bits per second; None: by its size and rate.
        timeout: seconds in which a library encodes or decodes one frame, or counts as failed.
    """

    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 80
    h264: Literal["auto", "libx264", "h264_nvenc"] = "auto"
    preset: Literal["realtime", "ultrafast", "superfast", "veryfast", "faster", "fast", "medium"] = "realtime"
    bitrate: Annotated[int, Meta(ge=50_000, le=200_000_000)] | None = None
    timeout: Annotated[float, Meta(gt=0, le=600)] = 10.0
