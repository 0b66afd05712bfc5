"""Who is connected: the ways out to each client and in from it, and the wait until all have left."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import trio

from reactor_trio.concurrency.repeated_event import Bell
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import Hello, Inbound, Outbound, OutboundServices, Stay
from reactor_trio.connection.message_log import Transcript
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.codec_pool import Coders
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.server.tracing import Tracing


class Clients:
    """The clients of one server, those who wait counted.

    Args:
        tracks: the model's tracks.
        coders: run encoders and decoders.
        tracing: is told what becomes of commands, None if nobody follows them.
        left: rung when one has left.
    """

    def __init__(
        self,
        tracks: tuple[TrackSpec, ...],
        settings: Settings,
        metrics: Metrics,
        coders: Coders,
        tracing: Tracing | None,
        left: Bell,
    ) -> None:
        #: seconds after which a frame is too old; a client that holds the model back is sent every one
        self.max_age = math.inf if settings.slow_client == "hold" else settings.max_age
        self._tracks = tracks
        self._coders = coders
        self._dropped = metrics.dropped
        self._left = left
        self._numbers = itertools.count(1)
        self._present: set[Outbound] = set()
        limits = settings.limits
        self._kept = (limits.resume_messages, limits.resume_bytes) if settings.resume_window else (0, 0)
        self._services = OutboundServices(
            tracks=tracks, codec=settings.codec, coders=coders, max_age=self.max_age,
            message_limit=settings.limits.unanswered_commands,
            dropped=metrics.dropped, sent=metrics.sent, latency=metrics.latency,
            encoded=metrics.encoded, traced=None if tracing is None else tracing.pictured,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[Outbound]:
        """Over those that are there now; they may leave meanwhile."""
        return iter(list(self._present))

    def stranger(self, hello: Hello) -> Outbound:
        """The way out to somebody who is not counted: a recorder."""
        return Outbound(next(self._numbers), trio.current_time(), hello, self._services, watches=False)

    def join(self, hello: Hello, stay: Stay | None = None) -> Outbound:
        """The way out to a new client, or to one that comes back: it is the same client, and its messages go on."""
        if stay is None:
            transcript = Transcript(*self._kept) if hello.role == "control" else None
            outbound = Outbound(next(self._numbers), trio.current_time(), hello, self._services, transcript)
        else:
            outbound = Outbound(stay.number, stay.joined_at, hello, self._services, stay.transcript)
        self._present.add(outbound)
        return outbound

    def inbound(self, outbound: Outbound) -> Inbound:
        """The way in of the client that `outbound` leads to."""
        return Inbound(
            self._tracks, self._coders, self._dropped,
            lambda code, message: outbound.say("reactor.error", {"code": code, "message": message}),
            lambda track: outbound.say("reactor.keyframe", {"track": track}),
        )  # fmt: skip

    def leave(self, outbound: Outbound) -> None:
        """Its connection is over."""
        self._present.discard(outbound)
        outbound.close()
        self._left.ring()

    async def all_left(self) -> None:
        """Return when nobody is there."""
        while self._present:
            await self._left.wait()
