"""What the ways out to clients are given by their server."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reactor_trio.connection.down_track import CodedFrame
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings
from reactor_trio.media.codec_pool import CodecPool


class SenderServices(msgspec.Struct, frozen=True):
    """What the ways out need of their server.

    Attributes:
        tracks: the model's; their places are the indices on the wire.
        codec: how frames are encoded.
        coders: run the encoders.
        max_age: seconds after its due time from which a frame is too old.
        message_limit: messages that may wait; more means that the client does not read.
        dropped: counts frames dropped: place, reason, number.
        sent: counts what was sent: frames, bytes.
        latency: told of parts of the time from a command to its picture: which, and seconds.
        encoded: told of each block of sound encoded: codec, and seconds.
        traced: told of each picture written, if somebody follows commands: the client's number, the picture, and when its
            writing began and ended.
    """

    tracks: tuple[TrackSpec, ...]
    codec: CodecSettings
    codec_pool: CodecPool
    max_age: float
    message_limit: int
    dropped: Callable[[str, str, int], None]
    sent: Callable[[int, int], None]
    latency: Callable[[str, float], None]
    encoded: Callable[[str, float], None] = lambda _codec, _seconds: None
    traced: Callable[[int, CodedFrame, float, float], None] | None = None
