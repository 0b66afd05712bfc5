"""The server's settings, codec pool and telemetry that each `ClientSender` uses."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.telemetry import Telemetry


class SenderContext(msgspec.Struct, frozen=True):
    """What all clients' senders, receivers and renditions of one server use.

    Attributes:
        tracks: the model's; their places are the indices on the wire.
        codec: how frames are encoded.
        codec_pool: runs the encoders and decoders.
        max_age: seconds after its due time from which a frame is too old.
        message_limit: messages that may wait; more means that the client does not read.
        telemetry: counts and traces what happens.
        lag: says for how many seconds what the loop handles now may have waited for it.
        heartbeat: seconds without a message until a client that asks for it gets `reactor.beat`.
    """

    tracks: tuple[TrackSpec, ...]
    codec: CodecSettings
    codec_pool: CodecPool
    max_age: float
    message_limit: int
    telemetry: Telemetry = Telemetry()
    lag: Callable[[], float] = float  # no seconds
    heartbeat: float = math.inf
