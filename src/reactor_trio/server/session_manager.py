"""The `connection.SessionProvider` of a server: gives connections a place, a session, encoders and a welcome."""

from __future__ import annotations

import itertools
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import (
    ClientSender,
    ConnectRequest,
    MediaReceiver,
    RenditionSet,
    ResumableSession,
    SenderContext,
)
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.connection.resumable_session import Place as AnyPlace
from reactor_trio.interface.declaration import Declaration
from reactor_trio.media import Worker, input_codecs
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import PROTOCOL, EndReason, Welcome
from reactor_trio.server.resumable_sessions import Begin, ResumableSessions
from reactor_trio.server.run_facts import run_facts
from reactor_trio.server.running_sessions import RunningSessions
from reactor_trio.server.server_telemetry import ServerTelemetry
from reactor_trio.server.session_recording import SessionRecording, recorder_request
from reactor_trio.server.waiting_room import Place, WaitingRoom
from reactor_trio.session import Session, SessionServices
from reactor_trio.session.upload_store import Disk

log = logging.getLogger("reactor_trio.server")


class ServerContext(Protocol):
    """The `Runtime`, as its session manager sees it.

    Attributes:
        schema: the answer to `GET /schema`, None until the model is loaded.
        goodbye: the end reason that clients get when the server goes down.
        config: the argument of the model's `load`.
    """

    name: str
    settings: Settings
    metrics: ServerTelemetry
    room: WaitingRoom
    schema: dict[str, Any] | None
    goodbye: EndReason
    config: dict[str, Any]

    @property
    def declaration(self) -> Declaration:
        """The model's declaration."""

    @property
    def services(self) -> SessionServices:
        """The services for new sessions."""

    def session_begins(self, session: Session) -> None:
        """A session begins."""

    def session_over(self, session: Session) -> None:
        """A session has ended; the session manager has removed it."""


class SessionManager:
    """Owns the clients and sessions of one server.

    Args:
        worker: runs encoders and decoders away from the loop.
        disk: writes recordings away from the loop.
        after_session: awaited after the model has released a session, before the next one begins.

    Attributes:
        left: set when a client has left or a session is over.
        recordings: the folder for recordings, None if nothing is recorded.
        resumables: the sessions with their controlling clients; its `run` is a task of the server.
        codec_pool: the encoders and decoders at work.
    """

    def __init__(
        self, context: ServerContext, worker: Worker, disk: Disk, after_session: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.farewell_timeout = max(context.settings.drain_grace / 2, 0.1)
        self.sessions = RunningSessions()
        self.resumables = ResumableSessions(context.settings.resume_window)
        self.left = RepeatedEvent()
        self.recordings: Path | None = None
        self._context = context
        self.codec_pool = CodecPool(worker, context.settings.codec.timeout)
        self._disk = disk
        self._after_session = after_session
        self._clients: set[ClientSender] = set()
        self._numbers = itertools.count(1)
        #: seconds after which a frame is too old; a client for which the model waits gets each frame
        self._max_age = math.inf if context.settings.slow_client == "hold" else context.settings.max_age

    @property
    def clients(self) -> list[ClientSender]:
        """The clients that are connected now, those that wait for a session included."""
        return list(self._clients)

    def resumable(self, request: ConnectRequest) -> ResumableSession | None:
        """Return the session that a client resumes."""
        return self.resumables.of_token(request.resume)

    def sender(self, request: ConnectRequest) -> ClientSender:
        """The sender to a new client, or to one that comes back: that keeps its number and its messages."""
        if (resumable := self.resumable(request)) is not None:
            sender = ClientSender(
                resumable.number, resumable.joined_at, request, self._sender_context, resumable.message_log
            )
        else:
            limits = self._context.settings.limits
            keeps = request.role == "control" and self.resumables.window > 0
            log = MessageLog(limits.resume_messages, limits.resume_bytes) if keeps else None
            sender = ClientSender(next(self._numbers), trio.current_time(), request, self._sender_context, log)
        self._clients.add(sender)
        return sender

    def receiver(self, sender: ClientSender) -> MediaReceiver:
        """The receiver of the client of `sender`."""
        return MediaReceiver(self._sender_context, sender.say)

    def enter(self, sender: ClientSender) -> Place:
        """Give a controlling client a slot or a place in the queue. Raises Refused."""
        sid = sender.request.claims.session_id or secrets.token_hex(8)

        def send_away(reason: EndReason) -> None:
            if (session := self.sessions.find(sid)) is not None:
                session.end(reason)
            else:
                sender.end(self._context.goodbye if reason == "draining" else reason)

        def why() -> EndReason | None:
            resumable = self.resumables.find(sid)
            return sender.end_reason if resumable is None else resumable.end_reason

        def moved(position: int, total: int) -> None:
            stuck = self._context.metrics.stuck
            sender.say("reactor.queued", {"position": position, "total": total} | ({"reason": stuck} if stuck else {}))

        place = self._context.room.enter(sid, sender.request, moved, send_away, why)
        self._show_queue()
        return place

    def leave(self, sender: ClientSender) -> None:
        """Forget a client whose connection is over."""
        self._clients.discard(sender)
        sender.close()
        self.left.set()
        self._show_queue()

    def home(self) -> AbstractAsyncContextManager[Begin]:
        """Open the scope in which a session runs; see `ResumableSessions.home`."""
        return self.resumables.home()

    def open_resumable(self, place: AnyPlace, sender: ClientSender) -> ResumableSession:
        """Make a session for an admitted client. The caller runs it in the scope of `home`."""
        session = self.open_session(place.sid, sender)
        resumable = ResumableSession(
            session, place, sender, self.resumables.window, self.run_session, self._resumable_changed
        )
        self.resumables.add(resumable)
        return resumable

    async def all_left(self) -> None:
        """Return when no client is connected and no session runs."""
        while self._clients or self.sessions:
            await self.left.wait()

    def open_session(self, sid: str, sender: ClientSender) -> Session:
        """Make a new session. The caller runs it."""
        length = sender.request.claims.session_length
        session = Session(sid, self._context.services, (sender.number, sender.joined_at), self._session_over, length)
        renditions = RenditionSet(self._sender_context)
        running_session = self.sessions.begin(session, renditions)
        self._show_queue()
        if self.recordings is not None:
            running_session.recording = self._record(session, self.recordings)
        self._context.session_begins(session)
        log.info("session %s begins", sid)
        return session

    async def run_session(self, session: Session) -> None:
        """Run a session; returns when the model has released it and its recording is complete."""
        running_session = self.sessions.running_session(session)
        recording, running_session.recording = (
            running_session.recording,
            None,
        )  # it knows the session, whose stages go with it
        try:
            await (session.run() if recording is None else recording.run_session())
        finally:
            if self._after_session is not None:
                await self._after_session()

    def session_to_view(self, request: ConnectRequest) -> Session | None:
        """Return the session that a viewer may watch."""
        return self.sessions.to_view(request.token)

    def renditions(self, session: Session) -> RenditionSet:
        """Return the encoders of a session."""
        return self.sessions.running_session(session).renditions

    def welcome(
        self, session: Session, sender: ClientSender, request: ConnectRequest, resumable: ResumableSession | None = None
    ) -> Welcome:
        """Make the first message to a client. `resumable` is the session of a controlling client."""
        may_return = resumable is not None and resumable.token is not None
        resumed = resumable is not None and request.resume is not None
        missed = resumable.message_log.missed_after(request.after) if resumable is not None and resumed else 0
        if resumed:
            self._context.metrics.resumed(missed)
        return Welcome(
            session_id=session.id, protocol=PROTOCOL, name=self._context.name, role=request.role,
            heartbeat=self._context.settings.limits.ping_interval,
            resume_token=None if resumable is None else resumable.token,
            upload_token=session.uploads.token if session.uploads is not None and request.role == "control" else None,
            schema=self._context.schema or {},
            tracks=[
                replace(track, codecs=input_codecs(track.kind)) if track.direction == "in" else track
                for track in sender.track_infos
            ],
            share_token=self.sessions.running_session(session).share_token if request.role == "control" else None,
            resume_window=self.resumables.window if may_return and math.isfinite(self.resumables.window) else None,
            resumed=resumed, received=0 if resumable is None else resumable.received, missed=missed,
            state=session.values.welcome(sender.number),
        )  # fmt: skip

    # ---- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _sender_context(self) -> SenderContext:
        context = self._context
        return SenderContext(
            tracks=context.declaration.tracks, codec=context.settings.codec, codec_pool=self.codec_pool,
            max_age=self._max_age, message_limit=context.settings.limits.unanswered_commands, telemetry=context.metrics,
        )  # fmt: skip

    def _record(self, session: Session, folder: Path) -> SessionRecording:
        request = recorder_request()
        sender = ClientSender(next(self._numbers), trio.current_time(), request, self._sender_context, watches=False)
        sender.join(self.renditions(session))
        welcome = self.welcome(session, sender, request)
        run = run_facts(self._context.declaration.model, self._context.config, session.id)
        return SessionRecording(folder, session, sender, welcome, self._disk, run, self._context.metrics)

    def _session_over(self, session: Session) -> None:
        self.sessions.end(session)
        self._context.session_over(session)
        log.info("session %s ended: %s", session.id, session.reason)
        self._show_queue()
        self.left.set()

    def _resumable_changed(self, resumable: ResumableSession) -> None:
        self.resumables.changed(resumable)
        if resumable.away and self._context.room.admission.open == "draining":  # no client could get a notice
            resumable.session.end(self._context.goodbye)
        self._context.metrics.away = len(self.resumables.away)
        self.left.set()

    def _show_queue(self) -> None:
        metrics, admission = self._context.metrics, self._context.room.admission
        metrics.live, metrics.waiting = admission.live, admission.waiting
