"""Who is connected: the ways out to each client and in from it, and the wait until all have left."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import ClientSender, ConnectRequest, MediaReceiver, ResumableSession, SenderServices
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.telemetry import Telemetry


class ConnectedClients:
    """The clients of one server, those who wait counted.

    Args:
        tracks: the model's tracks.
        coders: run encoders and decoders.
        left: rung when one has left.
    """

    def __init__(
        self,
        tracks: tuple[TrackSpec, ...],
        settings: Settings,
        telemetry: Telemetry,
        codec_pool: CodecPool,
        left: RepeatedEvent,
    ) -> None:
        #: seconds after which a frame is too old; a client that holds the model back is sent every one
        self.max_age = math.inf if settings.slow_client == "hold" else settings.max_age
        self._tracks = tracks
        self._codec_pool = codec_pool
        self._telemetry = telemetry
        self._left = left
        self._numbers = itertools.count(1)
        self._present: set[ClientSender] = set()
        limits = settings.limits
        self._kept = (limits.resume_messages, limits.resume_bytes) if settings.resume_window else (0, 0)
        self._services = SenderServices(
            tracks=tracks, codec=settings.codec, codec_pool=codec_pool, max_age=self.max_age,
            message_limit=settings.limits.unanswered_commands, telemetry=telemetry,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[ClientSender]:
        """Over those that are there now; they may leave meanwhile."""
        return iter(list(self._present))

    def stranger(self, request: ConnectRequest) -> ClientSender:
        """The way out to somebody who is not counted: a recorder."""
        return ClientSender(next(self._numbers), trio.current_time(), request, self._services, watches=False)

    def join(self, request: ConnectRequest, resumable: ResumableSession | None = None) -> ClientSender:
        """The way out to a new client, or to one that comes back: it is the same client, and its messages go on."""
        if resumable is None:
            message_log = MessageLog(*self._kept) if request.role == "control" else None
            sender = ClientSender(next(self._numbers), trio.current_time(), request, self._services, message_log)
        else:
            sender = ClientSender(resumable.number, resumable.joined_at, request, self._services, resumable.message_log)
        self._present.add(sender)
        return sender

    def receiver(self, sender: ClientSender) -> MediaReceiver:
        """The way in of the client that `sender` leads to."""
        return MediaReceiver(
            self._tracks, self._codec_pool, self._telemetry,
            lambda code, message: sender.say("reactor.error", {"code": code, "message": message}),
            lambda track: sender.say("reactor.keyframe", {"track": track}),
        )  # fmt: skip

    def leave(self, sender: ClientSender) -> None:
        """Its connection is over."""
        self._present.discard(sender)
        sender.close()
        self._left.set()

    async def all_left(self) -> None:
        """Return when nobody is there."""
        while self._present:
            await self._left.wait()
