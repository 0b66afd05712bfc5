"""Pictures and sound from the client to the model, as packets of the session's input tracks.

A push returns when its packet is sent. While one picture of a track is encoded or waits for the socket, only the newest of
the later pictures is kept, not yet encoded: the model never gets a picture that is older than the link makes it. Sound is
sent completely, in order.

The next picture is a keyframe if the server asks for one, if an encoded picture was not sent, or if the link was lost. While
the link is lost nothing is encoded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, NamedTuple

import anyio
import numpy as np
from numpy.typing import ArrayLike, NDArray

from reactor_trio.client.push_video import CODECS, PushEncoder
from reactor_trio.decoding import INSTALL, available
from reactor_trio.protocol import KEYFRAME, Packet, TrackInfo, encode_packet

#: Sends a packet. Returns whether the connection took it.
Send = Callable[[bytes], Awaitable[bool]]


class Payload(NamedTuple):
    """What a packet carries."""

    data: bytes
    meta: dict[str, Any]
    keyframe: bool = True

    def stating(self, metadata: bytes | None, capture_time_us: int | None) -> Payload:
        """Return it with what the client states of the frame; None states nothing. Raises TypeError for a time in parts."""
        meta = dict(self.meta)
        if metadata is not None:
            meta["metadata"] = metadata
        if capture_time_us is not None:
            meta["capture_time_us"] = operator.index(capture_time_us)
        return self._replace(meta=meta)


class PushTrack:
    """One input track of a session. It numbers the packets and lets one picture through at a time."""

    def __init__(self, info: TrackInfo) -> None:
        self.info = info
        self._seqs = count()
        # Held for the picture that is under way; the scope is that of the newest picture that waits, or has waited, for it.
        self._turn = anyio.Lock()
        self._waiting: anyio.CancelScope | None = None
        self._encoder: PushEncoder | None = None
        #: whether the next picture must be a keyframe
        self.keyframe_wanted = False

    def encode(self, picture: NDArray[np.uint8], pts: float, codec: str, quality: int) -> Payload:
        """Encode `picture`; 1 ms for a JPEG of 640x480, 2 ms for H.264, on the calling thread. Raises ValueError."""
        if codec not in CODECS:
            self._encoder = None
            return encode_picture(picture, codec, quality)
        height, width = picture.shape[:2]
        if self._encoder is None or (self._encoder.codec, self._encoder.size) != (codec, (width, height)):
            self._encoder = PushEncoder(codec, width, height)
        keyframe, self.keyframe_wanted = self.keyframe_wanted, False
        data, keyframe = self._encoder.encode(picture, pts, keyframe)
        return Payload(data, {"codec": codec, "width": width, "height": height}, keyframe)

    async def push_newest(self, pts: float, encode: Callable[[], Awaitable[Payload]], send: Send) -> bool:
        """Encode and send when it is this picture's turn. Returns False if a newer picture replaced it, or the link did not
        take it.
        """
        seq = next(self._seqs)
        if not await self._wait_turn():
            return False
        sent = False
        try:
            sent = await send(self._packet(seq, pts, await encode()))
        finally:
            if not sent:
                self.keyframe_wanted = True  # the decoder will miss the encoded picture
            self._turn.release()
        return sent

    async def push(self, pts: float, payload: Payload, send: Send) -> None:
        """Send `payload`."""
        await send(self._packet(next(self._seqs), pts, payload))

    async def _wait_turn(self) -> bool:
        """Wait until no picture is under way. Returns False at once if a newer picture replaces this one."""
        if self._waiting is not None:
            self._waiting.cancel()
        with anyio.CancelScope() as self._waiting:
            await self._turn.acquire()
            return True
        return False

    def _packet(self, seq: int, pts: float, payload: Payload) -> bytes:
        data, meta, keyframe = payload
        flags = KEYFRAME if keyframe else 0
        return encode_packet(Packet(self.info.index, seq, round(pts * 1e6), flags, None, 0, meta, memoryview(data)))


class PushTracks:
    """The input tracks to which the client has pushed, and the clock that they share."""

    def __init__(self) -> None:
        self._tracks: dict[int, PushTrack] = {}
        self._began: float | None = None

    def of(self, track: TrackInfo) -> PushTrack:
        """Return the PushTrack of an input track."""
        return self._tracks.setdefault(track.index, PushTrack(track))

    def capture_time(self, pts: float | None) -> float:
        """Return `pts`; for None, the seconds since the first call with None. Raises ValueError."""
        if pts is None:
            now = anyio.current_time()
            self._began = now if self._began is None else self._began
            return now - self._began
        if not 0 <= pts < math.inf:
            raise ValueError(f"pts: expected seconds, 0 or more, got {pts!r}")
        return pts

    def request_keyframe(self, track: int | None = None) -> None:
        """Make the next picture of this track, or for None of each track, a keyframe."""
        for push_track in self._tracks.values():
            if track in (None, push_track.info.index):
                push_track.keyframe_wanted = True


def check_codec(codec: str) -> None:
    """Raise ValueError unless pictures can be encoded with `codec` here."""
    known = ("jpeg", "raw", *CODECS)
    if codec not in known:
        raise ValueError(f"codec: expected one of {', '.join(known)}, got {codec!r}")
    if codec in CODECS and not available():
        raise ValueError(f"codec: {codec} needs PyAV, {INSTALL}")


def checked_picture(frame: ArrayLike) -> NDArray[np.uint8]:
    """Return `frame` as an array. Raises ValueError unless it is a picture."""
    array = np.asarray(frame)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"expected a picture, uint8 (H, W, 3), got {array.dtype} {array.shape}")
    return array


def encode_picture(picture: NDArray[np.uint8], codec: str, quality: int) -> Payload:
    """Encode as raw pixels for codec `raw`, else as a JPEG."""
    picture = np.ascontiguousarray(picture)
    if codec == "raw":
        height, width = picture.shape[:2]
        return Payload(picture.tobytes(), {"codec": "raw", "width": width, "height": height})
    import simplejpeg

    data: bytes = simplejpeg.encode_jpeg(picture, quality=quality, colorspace="RGB", colorsubsampling="420")
    return Payload(data, {"codec": "jpeg"})


def encode_sound(samples: ArrayLike) -> Payload:
    """Encode as little-endian 16-bit samples of one channel. Raises ValueError for any other array."""
    array = np.asarray(samples)
    if array.dtype != np.int16 or array.size == 0 or not (array.ndim == 1 or (array.ndim == 2 and array.shape[0] == 1)):
        raise ValueError(f"expected sound, int16 (M,) or (1, M), got {array.dtype} {array.shape}")
    return Payload(array.astype("<i2").tobytes(), {"codec": "pcm_s16le"})
