"""From a frame to the payload of a packet: the interface of an encoder, and the encoders without a codec library.

Each encoder serves one track. An encoder may be stateful: a codec with inter frames refers to the last frame *that it was
given*. The sender therefore calls it only for frames that it will send, one at a time and in order; frames are dropped
before encoding. An encoder whose work costs time runs on a worker thread, which also fetches a frame from its device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.frames import FrameHandle, to_host
from reactor_trio.pacing import Quality
from reactor_trio.protocol import Color, TrackInfo


class Encoded(msgspec.Struct, frozen=True):
    """The payload of one packet.

    Attributes:
        keyframe: the packet can be decoded alone.
        size: (width, height) of a picture.
        meta: further entries for the packet's `meta`.
        pts_shift_us: the offset from the frame's presentation time to the payload's, in microseconds.
    """

    payload: memoryview
    keyframe: bool
    size: tuple[int, int] | None
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    pts_shift_us: int = 0


class Encoder(ABC):
    """Encodes the frames of one track, for one viewer or several."""

    codec: ClassVar[str]
    #: whether `encode` costs enough to run on a worker thread; a frame on a device always does
    blocking: ClassVar[bool] = True
    #: whether each frame can be decoded alone
    intra_only: ClassVar[bool] = False
    #: the library or its encoder, by name, for people
    implementation: str

    @abstractmethod
    def encode(self, frame: FrameHandle) -> Encoded:
        """Encode the next frame that will be sent. Runs on a worker thread if `blocking`."""

    def request_keyframe(self) -> None:  # noqa: B027 - most codecs need nothing here
        """Make the next frame decodable alone. A codec with only such frames ignores this."""

    def configure(self, target: Quality) -> None:  # noqa: B027 - a lossless codec has nothing to change
        """Aim at `target` from the next frame on. Never called while `encode` runs."""

    def close(self) -> None:  # noqa: B027 - most codecs hold nothing
        """Release what the encoder holds. Nothing is encoded afterwards."""

    @abstractmethod
    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe what a client needs to decode this track; `size` is (width, height), None before the first frame."""


class PictureEncoder(Encoder):
    """Base of the codecs in which each frame can be decoded alone."""

    intra_only = True
    pixel_format: ClassVar[str]

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe the track by the size of its pictures."""
        width, height = size or (None, None)
        return TrackInfo(
            index, spec.name, "video", "out", self.codec,
            width=width, height=height, pixel_format=self.pixel_format, color=Color(),
        )  # fmt: skip


class RawEncoder(PictureEncoder):
    """RGB24, rows top to bottom, unpadded: the frame as the model made it."""

    codec = "raw"
    implementation = "none"
    pixel_format = "rgb24"
    blocking = False

    def encode(self, frame: FrameHandle) -> Encoded:
        """Return a view of the frame, without a copy."""
        array = to_host(frame)
        height, width = array.shape[:2]
        return Encoded(_bytes_of(array), True, (width, height))


class PcmEncoder(Encoder):
    """Signed 16-bit little-endian samples, one channel."""

    codec = "pcm_s16le"
    intra_only = True
    implementation = "none"
    blocking = False

    def encode(self, frame: FrameHandle) -> Encoded:
        """Return the samples, without a copy on a little-endian machine."""
        return Encoded(_bytes_of(to_host(frame).astype("<i2", copy=False)), True, None)

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        """Describe the track by its sample rate."""
        return TrackInfo(index, spec.name, "audio", "out", self.codec, sample_rate=spec.sample_rate)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")
