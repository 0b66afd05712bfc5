"""Payloads to numpy: one decoder for each track and consumer, made for the track's description at that time.

A decoder may keep state from one payload to the next and may give no frame or several for one payload, as inter-frame
codecs do; a new description (another size or codec) starts a new decoder. Codecs are looked up in one table, in the
order in which we ask a server for them: JPEG before raw, because only who asks for it wants 83 MB/s of raw 720p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import TrackInfo


class Decoder(Protocol):
    """Decodes one track's payloads in order."""

    def decode(self, payload: memoryview, flags: int) -> list[NDArray[Any]]:
        """The frames that `payload` completes. Raises ProtocolError if it is none of this codec."""
        ...


class RawDecoder:
    """RGB24 to `(H, W, 3)` uint8: a read-only view of the message, no copy."""

    def __init__(self, track: TrackInfo) -> None:
        self._track = track

    def decode(self, payload: memoryview, flags: int) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        height, width = self._track.height, self._track.width
        if height is None or width is None:
            raise ProtocolError(f"track {self._track.name}: a raw frame came before the track's size")
        if payload.nbytes != height * width * 3:
            raise ProtocolError(
                f"track {self._track.name}: a raw frame of {width}x{height} has {height * width * 3} bytes, "
                f"got {payload.nbytes}"
            )
        frame = np.frombuffer(payload, np.uint8).reshape(height, width, 3)
        frame.flags.writeable = False
        return [frame]


class JpegDecoder:
    """A JPEG file to `(H, W, 3)` uint8."""

    def __init__(self, track: TrackInfo) -> None:
        import simplejpeg

        self._track = track
        self._decode = simplejpeg.decode_jpeg

    def decode(self, payload: memoryview, flags: int) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        try:
            return [self._decode(payload, colorspace="RGB")]
        except ValueError as error:
            raise ProtocolError(f"track {self._track.name}: not a JPEG picture: {error}") from None


class PcmDecoder:
    """Little-endian 16-bit samples to `(1, M)` int16: a read-only view of the message, no copy."""

    def __init__(self, track: TrackInfo) -> None:
        self._track = track

    def decode(self, payload: memoryview, flags: int) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        if payload.nbytes % 2:
            raise ProtocolError(f"track {self._track.name}: half a 16-bit sample in {payload.nbytes} bytes")
        samples = np.frombuffer(payload, "<i2").reshape(1, -1)
        samples.flags.writeable = False
        return [samples]


class Codec(NamedTuple):
    """One row of the table: what makes its decoder, and the package that this needs."""

    kind: str
    make: Callable[[TrackInfo], Decoder]
    package: str = "numpy"


CODECS: dict[str, Codec] = {
    "jpeg": Codec("video", JpegDecoder, "simplejpeg"),
    "raw": Codec("video", RawDecoder),
    "pcm_s16le": Codec("audio", PcmDecoder),
}


def available() -> tuple[str, ...]:
    """The video codecs that can be decoded here, best first."""
    return tuple(name for name, codec in CODECS.items() if codec.kind == "video" and find_spec(codec.package))


def wanted(video: Iterable[str] | None) -> tuple[str, ...]:
    """The codecs to ask a server for: `video` without those that cannot be decoded here, all available ones if None.

    Raises ValueError if codecs are named and none of them can be decoded here.
    """
    if video is None:
        return available()
    named = tuple(video.split(",") if isinstance(video, str) else video)
    if named in ((), ("none",)):
        return ()
    usable = tuple(name for name in named if name in available())
    if not usable:
        raise ValueError(f"video={','.join(named)} cannot be decoded here; available: {', '.join(available())}")
    return usable


def make_decoder(track: TrackInfo) -> Decoder:
    """A new decoder for `track`. Raises ProtocolError if its codec is not one that we asked for."""
    if track.codec not in CODECS:
        raise ProtocolError(f"track {track.name}: codec {track.codec} cannot be decoded here")
    return CODECS[track.codec].make(track)
