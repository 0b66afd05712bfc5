"""The settings for encoding: `runtime.codec` of the manifest."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class CodecSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which encoders run, and at which quality.

    Attributes:
        jpeg_quality: quality of JPEG frames, 1 to 100.
        h264: the H.264 encoder; "auto" is NVENC, if it opens, for frames that lie on a device, else libx264.
        preset: libx264's preset; `realtime` is its `ultrafast` with the two features whose absence is most visible: the
            deblocking filter and adaptive quantisation.
        bitrate: the highest bitrate of a video track in bits per second; None: by its size and rate.
        timeout: seconds in which a library must encode or decode one frame; otherwise it counts as failed.
    """

    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 80
    h264: Literal["auto", "libx264", "h264_nvenc"] = "auto"
    preset: Literal["realtime", "ultrafast", "superfast", "veryfast", "faster", "fast", "medium"] = "realtime"
    bitrate: Annotated[int, Meta(ge=50_000, le=200_000_000)] | None = None
    timeout: Annotated[float, Meta(gt=0, le=600)] = 10.0
