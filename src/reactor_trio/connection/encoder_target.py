"""What one encoder aims at: the quality of its rendition, for frames of this size and rate."""

from __future__ import annotations

from reactor_trio.media import CodecSettings, full_bitrate
from reactor_trio.pacing import Quality


class EncoderTarget:
    """The target of one encoder of this codec."""

    def __init__(self, codec: str, settings: CodecSettings) -> None:
        self._codec = codec
        self._settings = settings
        self._target: Quality | None = None
        #: from what the newest target was computed, which most frames have in common
        self._origin: tuple[object, ...] = ()

    def change(self, quality: Quality, shape: tuple[int, ...], duration: float) -> Quality | None:
        """What the encoder is to aim at from the next frame on; None: go on.

        Args:
            quality: that of the rendition.
            shape: of the frame.
            duration: for how many seconds it is shown.
        """
        origin = quality, shape, duration
        if origin == self._origin:
            return None
        self._origin = origin
        (height, width), fps = shape[-3:-1], 1 / duration
        target = quality.at(full_bitrate(self._codec, int(width), int(height), fps, self._settings), fps)
        if self._target is not None and not _differ(target, self._target):
            return None
        self._target = target
        return target


def _differ(one: Quality, other: Quality) -> bool:
    return one.scale != other.scale or not 0.95 < one.bitrate / other.bitrate < 1.05 or not 0.9 < one.fps / other.fps < 1.1
