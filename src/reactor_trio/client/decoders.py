"""Payloads to numpy: one decoder for each track and consumer, made from the track's current description.

A decoder may keep state between payloads, and one payload may complete no frame or several, as with inter-frame codecs. A
new description (another size or codec) starts a new decoder. The table `CODECS` has the codecs in the order in which the
client asks a server for them. JPEG is first: it decodes in 2 ms, needs no extra package, and any frame of it may be left
out. The exact codecs (83 MB/s of raw 720p) are used only if the caller names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_trio.decoding import INSTALL, DecodeError, OpusDecoder, VideoDecoder, decode_jpeg
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Packet, TrackInfo

#: largest width and height of a decoded picture, in pixels
MAX_SIDE = 8192


class Decoder(ABC):
    """Decodes the payloads of one track in order, one at a time."""

    def __init__(self, track: TrackInfo) -> None:
        self._track = track

    @abstractmethod
    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """Return the frames that `packet` completes. With `give` False decode, but return no frames, which costs less.

        Raises ProtocolError if the payload does not belong to this codec. Raises DecodeError if the next keyframe may repair
        the stream; that keyframe needs a new decoder.
        """

    def _broken(self, why: str) -> ProtocolError:
        return ProtocolError(f"track {self._track.name}: {why}")


class RawDecoder(Decoder):
    """RGB24 to `(H, W, 3)` uint8: a read-only view of the message, no copy."""

    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        payload, height, width = packet.payload, self._track.height, self._track.width
        if height is None or width is None:
            raise self._broken("a raw frame came before the track's size")
        if payload.nbytes != height * width * 3:
            raise self._broken(f"a raw frame of {width}x{height} has {height * width * 3} bytes, got {payload.nbytes}")
        frame = np.frombuffer(payload, np.uint8).reshape(height, width, 3)
        frame.flags.writeable = False
        return [frame] if give else []


class JpegDecoder(Decoder):
    """A JPEG file to `(H, W, 3)` uint8."""

    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        if not give:  # no later frame needs it
            return []
        try:
            return [decode_jpeg(packet.payload, MAX_SIDE)]  # a few bytes may announce 12 GB
        except ValueError as error:
            raise self._broken(str(error)) from None


class PcmDecoder(Decoder):
    """Little-endian 16-bit samples to `(1, M)` int16: a read-only view of the message, no copy."""

    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        if packet.payload.nbytes % 2:
            raise self._broken(f"half a 16-bit sample in {packet.payload.nbytes} bytes")
        samples = np.frombuffer(packet.payload, "<i2").reshape(1, -1)
        samples.flags.writeable = False
        return [samples] if give else []


class StreamDecoder(Decoder):
    """An inter-frame codec to `(H, W, 3)` uint8; a picture larger than the track's size is cropped to its top left."""

    def __init__(self, track: TrackInfo) -> None:
        assert track.codec is not None
        super().__init__(track)
        matrix, full_range = (None, None) if track.color is None else (track.color.matrix, track.color.full_range)
        self._decoder = VideoDecoder(track.codec, max_side=MAX_SIDE, matrix=matrix, full_range=full_range)

    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """As `Decoder.decode`."""
        return [self._cropped(picture) for picture in self._decoder.decode(packet.payload, give)]

    def _cropped(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        height, width = self._track.height or picture.shape[0], self._track.width or picture.shape[1]
        if picture.shape[:2] == (height, width):
            return picture
        if picture.shape[0] < height or picture.shape[1] < width:
            raise DecodeError(f"expected a picture of {width}x{height}, got {picture.shape[1]}x{picture.shape[0]}")
        return np.ascontiguousarray(picture[:height, :width])


class OpusStreamDecoder(Decoder):
    """The Opus packets of one block to `(1, M)` int16 at 48 kHz. `meta["sizes"]` has the size of each packet."""

    def __init__(self, track: TrackInfo) -> None:
        super().__init__(track)
        self._decoder = OpusDecoder()

    def decode(self, packet: Packet, give: bool = True) -> list[NDArray[Any]]:
        """As `Decoder.decode`; no frame if no Opus packet ended in the block."""
        sizes = packet.meta.get("sizes")
        if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
            raise self._broken("an Opus block without the sizes of its packets")
        if sum(sizes) != packet.payload.nbytes:
            raise self._broken(f"Opus packets of {sum(sizes)} bytes in a payload of {packet.payload.nbytes}")
        blocks, begin = [], 0
        for size in sizes:
            blocks.append(self._decoder.decode(packet.payload[begin : begin + size]))
            begin += size
        return [np.concatenate(blocks, axis=1)] if blocks and give else []


class Codec(NamedTuple):
    """One row of `CODECS`.

    Attributes:
        kind: `video` or `audio`.
        make: makes a decoder for a track.
        package: the package that the decoder imports.
        unnamed: whether the client asks for this codec when the caller names none.
        blocking: whether decoding is so expensive that it belongs on a worker thread.
    """

    kind: str
    make: Callable[[TrackInfo], Decoder]
    package: str = "numpy"
    unnamed: bool = True
    blocking: bool = True


CODECS: dict[str, Codec] = {
    "jpeg": Codec("video", JpegDecoder, "simplejpeg"),
    "h264": Codec("video", StreamDecoder, "av"),
    "vp8": Codec("video", StreamDecoder, "av"),
    "vp9": Codec("video", StreamDecoder, "av"),
    "av1": Codec("video", StreamDecoder, "av"),
    "lossless": Codec("video", StreamDecoder, "av", unnamed=False),
    "raw": Codec("video", RawDecoder, unnamed=False, blocking=False),
    "opus": Codec("audio", OpusStreamDecoder, "av", unnamed=False),
    "pcm_s16le": Codec("audio", PcmDecoder, blocking=False),
}


def available(kind: str = "video") -> tuple[str, ...]:
    """Return the codecs of a kind, `video` or `audio`, that can be decoded here, best first."""
    return tuple(name for name, codec in CODECS.items() if codec.kind == kind and find_spec(codec.package))


def wanted(codecs: Iterable[str] | None, kind: str = "video") -> tuple[str, ...]:
    """Return the codecs to ask a server for: those of `codecs` that can be decoded here.

    With None: jpeg, h264, vp8, vp9 and av1 for video, pcm_s16le for audio, as far as they can be decoded here. Raises
    ValueError if `codecs` names codecs and none of them can be decoded here.
    """
    usable = available(kind)
    if codecs is None:
        return tuple(name for name in usable if CODECS[name].unnamed) or usable
    named = tuple(codecs.split(",") if isinstance(codecs, str) else codecs)
    if named in ((), ("none",)):
        return ()
    asked = tuple(name for name in named if name in usable)
    if not asked:
        hint = f"; {INSTALL} brings more" if any(name in CODECS for name in named) else ""
        raise ValueError(f"{kind}={','.join(named)} cannot be decoded here; available: {', '.join(usable)}{hint}")
    return asked


def make_decoder(track: TrackInfo) -> Decoder:
    """Return a new decoder for `track`. Raises ProtocolError if its codec is not one that the client asked for."""
    codec = CODECS.get(track.codec or "")
    if codec is None:
        raise ProtocolError(f"track {track.name}: codec {track.codec} cannot be decoded here")
    if codec.kind != track.kind:
        raise ProtocolError(f"track {track.name}: {track.codec} is not a codec for {track.kind}")
    if not find_spec(codec.package):
        raise ProtocolError(f"track {track.name}: codec {track.codec} cannot be decoded here; {INSTALL}")
    return codec.make(track)


def blocking(track: TrackInfo) -> bool:
    """Return whether decoding `track`, or making its decoder, belongs on a worker thread."""
    codec = CODECS.get(track.codec or "")
    return codec is not None and codec.blocking
