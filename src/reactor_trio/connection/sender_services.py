"""What the ways out to clients are given by their server."""

from __future__ import annotations

import msgspec

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.telemetry import Telemetry


class SenderServices(msgspec.Struct, frozen=True):
    """What the ways out need of their server.

    Attributes:
        tracks: the model's; their places are the indices on the wire.
        codec: how frames are encoded.
        coders: run the encoders.
        max_age: seconds after its due time from which a frame is too old.
        message_limit: messages that may wait; more means that the client does not read.
        telemetry: counts and traces what happens.
    """

    tracks: tuple[TrackSpec, ...]
    codec: CodecSettings
    codec_pool: CodecPool
    max_age: float
    message_limit: int
    telemetry: Telemetry = Telemetry()
