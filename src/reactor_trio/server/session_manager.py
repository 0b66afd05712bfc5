"""The clients and sessions of a server; its connections see it as their `SessionProvider`.

A session may outlive its connection if `runtime.resume_window` gives its client time to come back. Then it runs in the
nursery of `SessionManager.run`, else in the scope of its connection.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET
from msgspec.structs import replace

from reactor_trio.admission import Claims
from reactor_trio.concurrency.lost_time import patient
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.connection import ClientSender, ConnectRequest, Entry, RenditionSet, SenderContext, ServedSession
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.edge.grants import Grant, Secrets
from reactor_trio.execution.author_failures import ends_model
from reactor_trio.leases.book import Leases
from reactor_trio.media import input_codecs
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import PROTOCOL, EndReason, Welcome, Worlds
from reactor_trio.server.run_facts import run_facts
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.server.server_facts import ServedModel, ServerFacts
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.server.waiting_room import RoomEntry, WaitingRoom
from reactor_trio.session import Session

if TYPE_CHECKING:
    from reactor_trio.execution.landing import LoadedWorld
    from reactor_trio.server.session_recording import SessionRecording

log = logging.getLogger("reactor_trio.server")

#: starts a session in its scope
Begin = Callable[[Callable[[], Awaitable[None]]], None]


class SessionManager:
    """Owns the clients and sessions of one server.

    Args:
        room: admits clients.
        leases: the slots promised to a gate.
        tokens: has the secrets of each session while they are good.
        parts: runs encoders, and returns memory after the model has released a session, before the next one begins.
        on_session: called with each session that begins.

    Attributes:
        model: the newest load's; None until the model is loaded.
        websockets: those that are open, and the requests for one that wait for their answer.
        left: set when one of these is gone, a client has left, or a session is over.
        recordings: the folder for recordings, None if nothing is recorded.
        codec_pool: the encoders and decoders at work.
    """

    def __init__(
        self, facts: ServerFacts, metrics: Metrics, room: WaitingRoom, leases: Leases, tokens: Secrets,
        parts: ProcessParts, on_session: Callable[[ServedSession], object],
    ) -> None:  # fmt: skip
        self.farewell_timeout = max(facts.settings.drain_grace / 2, 0.1)
        self.left = RepeatedEvent()
        self.websockets: set[object] = set()
        self.recordings: Path | None = None
        self.model: ServedModel | None = None
        self._facts, self._metrics, self._room, self._leases = facts, metrics, room, leases
        self._secrets = tokens
        self._on_session = on_session
        self.codec_pool = CodecPool(parts.worker, facts.settings.codec.timeout)
        self._free_memory = parts.free_memory
        self._clients: set[ClientSender] = set()
        self._numbers = itertools.count(1)
        self._window = facts.settings.resume_window
        self._nursery: trio.Nursery | None = None
        self._served: dict[str, ServedSession] = {}  # by the session's id, in the order in which they began

    @property
    def clients(self) -> list[ClientSender]:
        """The clients that are connected now, those that wait for a session included."""
        return list(self._clients)

    @property
    def running(self) -> list[ServedSession]:
        """The sessions that run now, in the order in which they began."""
        return [served for served in self._served.values() if served.running]

    @property
    def away(self) -> list[ServedSession]:
        """The sessions whose client is disconnected and may come back."""
        return [served for served in self._served.values() if served.away]

    @property
    def loaded(self) -> ServedModel:
        """The loaded model. There must be one."""
        assert self.model is not None, "the model is not loaded"
        return self.model

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Task: run the sessions that outlive their connections, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    async def clean_worlds(self) -> None:
        """Task of a server whose model is loaded: remove saved worlds that have expired, until cancelled."""
        if (worlds := self.loaded.services.worlds) is not None:
            await worlds.clean_hourly()

    # ---- `SessionProvider` --------------------------------------------------------------------------------------------

    def sender(self, request: ConnectRequest, back_in: ServedSession | None = None) -> ClientSender:
        """The sender to a new client, or to one that comes back: that keeps its number and its messages."""
        if back_in is not None:
            away = back_in.detached
            sender = ClientSender(away.number, away.joined_at, request, self._sender_context, away.message_log)
        else:
            limits = self._facts.settings.limits
            keeps = request.role == "control" and self._window > 0
            log = MessageLog(limits.resume_messages, limits.resume_bytes) if keeps else MessageLog()
            sender = ClientSender(next(self._numbers), trio.current_time(), request, self._sender_context, log)
        self._clients.add(sender)
        return sender

    def enter(self, sender: ClientSender) -> RoomEntry:
        """Give a controlling client a slot or a position in the queue. Raises NotAdmitted."""
        sid = sender.request.claims.session_id or secrets.token_hex(8)

        def send_away(reason: EndReason) -> None:
            if (served := self.find(sid)) is not None:
                served.session.end(reason)
            else:
                sender.end(reason)

        def end_reason() -> EndReason | None:
            served = self._served.get(sid)
            return sender.end_reason if served is None else served.end_reason

        def moved(position: int, total: int, wait: float | None) -> None:
            reason = self._facts.health.stuck or self._facts.loading
            heartbeat = self._facts.settings.limits.ping_interval
            queued = {"position": position, "total": total, "wait": None if reason else wait, "heartbeat": heartbeat}
            sender.say("reactor.queued", queued | ({"reason": reason} if reason else {}))

        entry = RoomEntry(sid, self._room, sender.request, moved, send_away, end_reason)
        self._room.enter(entry)
        return entry

    def leave(self, sender: ClientSender) -> None:
        """Forget a client whose connection is over."""
        self._clients.discard(sender)
        sender.close()
        self.left.set()

    @asynccontextmanager
    async def session_scope(self) -> AsyncIterator[Begin]:
        """Open the scope of a new session and return the function that starts it there."""
        if self._window:
            server = self._nursery
            assert server is not None, "SessionManager.run has not begun"
            yield server.start_soon
        else:
            async with trio.open_nursery() as nursery:
                yield nursery.start_soon

    async def load_world(self, request: ConnectRequest) -> LoadedWorld | None:
        """The world at which a client's session begins; None without one. Raises CommandError."""
        worlds = self.loaded.services.worlds
        if request.begins_at is None or worlds is None:
            return None
        return await worlds.load(request.begins_at, request.claims.subject or "")

    def open_session(self, entry: Entry, sender: ClientSender, begins_at: LoadedWorld | None) -> ServedSession:
        """Make a session for an admitted client. The caller starts its `run` in the scope of `session_scope` at once."""
        length = sender.request.claims.session_length or math.inf
        subject, client = sender.request.claims.subject or "", (sender.number, sender.joined_at)
        session = Session(entry.sid, self.loaded.services, client, length, subject)
        if begins_at is not None:
            session.begin_at(begins_at)
        renditions = RenditionSet(self._sender_context)
        served = ServedSession(
            session, renditions, entry, sender, self._window, self.run_session, self._changed, self._closed
        )  # fmt: skip
        self._served[session.id] = served
        viewer = Grant("share", Claims(role="viewer"), owner=served)
        self._secrets.register(served.share_token, viewer, lambda: served.running)
        if served.resume_token is not None:
            self._secrets.register(
                served.resume_token, Grant("resume", served.claims, owner=served), lambda: served.resumable
            )
        if (uploads := session.uploads) is not None:
            self._secrets.register(uploads.secret, Grant("upload", owner=served), lambda: uploads.token is not None)
        if (worlds := session.worlds) is not None:
            self._secrets.register(worlds.pictures.token, Grant("worlds", owner=served), lambda: served.running)
        return served

    async def all_left(self, within: float, *, shield: bool = False) -> None:
        """Return when no WebSocket is open or asked for, and no session runs; in `within` seconds at the latest."""
        with patient(trio.move_on_after(within, shield=shield)):
            while self.websockets or self.running:
                await self.left.wait()

    def find(self, session_id: str) -> ServedSession | None:
        """Return the session with this id if it runs now."""
        served = self._served.get(session_id)
        return served if served is not None and served.running else None

    async def run_session(self, served: ServedSession) -> None:
        """Run a session; returns when the model has released it and its recording is complete.

        A fault of the runtime in it is logged, and ends this session alone.
        """
        session = served.session
        run: Callable[[], Awaitable[None]] = partial(self._run_to_end, session)
        try:
            run = self._begin(served, run)
        except Exception as error:  # it is counted already, so it has to end as any other
            log.error("session %s cannot begin: please report this", session.id, exc_info=error)
            session.end("replica_failed")
        try:
            try:
                await run()
            finally:
                if self._free_memory is not None:
                    await self._free_memory.after_session()
        except* Exception as group:
            log.error("session %s failed in the runtime: please report this", session.id, exc_info=group)

    def welcome(self, served: ServedSession, sender: ClientSender, *, resumed: bool = False) -> Welcome:
        """Make the first message to a client; `resumed` if it has come back to its session."""
        request, session = sender.request, served.session
        controls = request.role == "control"
        declaration = self.loaded.services.placement.declaration
        world = declaration.world
        may = world.allowed(self._facts.settings.worlds.allow) if world is not None and controls else ()
        lasting = bool(may) and self._facts.settings.worlds.store is not None
        token = session.worlds.pictures.token if controls and session.worlds is not None else None
        missed = served.detached.message_log.missed_after(request.after) if resumed else 0
        if resumed:
            self._metrics.resumed(missed)
        return Welcome(
            session_id=session.id, protocol=PROTOCOL, name=self._facts.name, role=request.role,
            heartbeat=self._facts.settings.limits.ping_interval,
            resume_token=served.resume_token if controls else None,
            upload_token=session.uploads.token if session.uploads is not None and controls else None,
            schema=self.loaded.described.schema,
            tracks=[
                replace(track, codecs=input_codecs(track.kind)) if track.direction == "in" else track
                for track in sender.track_infos
            ],
            share_token=served.share_token if controls else None,
            resume_window=self._window if controls and 0 < self._window < math.inf else None,
            resumed=resumed, received=served.received if controls else 0, missed=missed,
            state=session.values.welcome(sender.number), schema_hash=self.loaded.described.schema["schema_hash"],
            transport=declaration.playback if controls else (), paused=session.stepping.paused,
            worlds=UNSET if not request.worlds else None if world is None else Worlds(may, token, lasting),
        )  # fmt: skip

    # ---- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _sender_context(self) -> SenderContext:
        settings = self._facts.settings
        return SenderContext(
            tracks=self.loaded.services.placement.declaration.tracks, codec=settings.codec, codec_pool=self.codec_pool,
            # a client for which the model waits gets each frame
            max_age=math.inf if settings.slow_client == "hold" else settings.max_age,
            message_limit=settings.limits.unanswered_commands, telemetry=self._metrics,
            heartbeat=settings.limits.ping_interval, lag=self._facts.lag,
        )  # fmt: skip

    def _begin(self, served: ServedSession, run: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Report that a session begins. Returns what runs it: `run`, or that beside a recording."""
        log.info("session %s begins", served.session.id)
        self._leases.begun(served.session.id)
        self._on_session(served)
        return run if self.recordings is None else partial(self._recording(served, self.recordings).run_session, run)

    def _recording(self, served: ServedSession, folder: Path) -> SessionRecording:
        from reactor_trio.server.session_recording import SessionRecording, recorder_request

        request = recorder_request()
        sender = ClientSender(next(self._numbers), trio.current_time(), request, self._sender_context, watches=False)
        try:
            sender.join(served.renditions)
            welcome = self.welcome(served, sender)
            run = run_facts(self.loaded.services.placement.declaration.model, self.loaded.config, served.session.id)
            return SessionRecording(folder, served.session, sender, welcome, run)
        except BaseException:
            sender.close()  # its encoders
            raise

    async def _run_to_end(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            reason = session.reason or "replica_failed"
            self._leases.over(session.id, reason)
            self._metrics.session_over(session, reason)
            if session.error is not None and ends_model(session.error):
                self.loaded.services.placement.killed(session.error)
            log.info("session %s ended: %s", session.id, reason)
            self.left.set()

    def _changed(self, served: ServedSession) -> None:
        if served.away and self._room.drain_reason is not None:  # no client could get a notice
            served.session.end(self._room.drain_reason)
        self.left.set()

    def _closed(self, served: ServedSession) -> None:
        del self._served[served.session.id]
        self._secrets.forget_those_of(served)
        self.left.set()
