"""One model and its sessions, without sockets: load, admit, open sessions, watch `run()`, drain.

    open_model_host -> Runtime.load -> nursery -+- Runtime.watch_model   run() of a run-loop model; its end is the server's
                                                +- Runtime.prepare       what the first client needs; it waits for that
                                                '- connections           converse(runtime, ...), one task each
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from reactor_trio.admission import Admission, Journal
from reactor_trio.connection import Hello, Inbound, Outbound, Tiers
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.media import Worker, encoders, input_codecs
from reactor_trio.model_host import ModelHost, with_twin
from reactor_trio.protocol import PROTOCOL, EndReason, Welcome
from reactor_trio.server.access import Access
from reactor_trio.server.clients import Clients
from reactor_trio.server.loading import load_model, session_services
from reactor_trio.server.metrics import CommandOutcome, Metrics, ModelState
from reactor_trio.server.model_loop import ModelLoop
from reactor_trio.server.preparing import prepare, prepare_rest
from reactor_trio.server.recorder import SessionRecording, recorder_hello, recording_folder
from reactor_trio.server.sessions import Sessions
from reactor_trio.server.settings import Settings
from reactor_trio.server.tracing import Tracing
from reactor_trio.server.waiting_room import Place, WaitingRoom
from reactor_trio.session import SESSION_OVER, Check, CommandRecord, Session, SessionServices
from reactor_trio.session.bell import Bell
from reactor_trio.session.uploads import Disk

log = logging.getLogger("reactor_trio.server")

_OUTCOMES: dict[str | None, CommandOutcome] = {None: "applied", "internal_error": "failed", SESSION_OVER: "discarded"}


class Runtime:
    """One loaded model and those it serves; the desk of its connections.

    Args:
        host: where author code runs.
        find_model: gives the model class; called on the model thread, so that an import of its module happens there.
        name: for welcome, health and log.
        debug: whether clients are told the text of an author's exception.
        worker: runs encoders and decoders away from the loop.
        disk: writes and reads uploaded files away from the loop.
        on_phase: told each phase the server enters.
        find_moderation: gives what checks the text in commands, or None; called where the model class is asked for.
        tracing: is told what becomes of commands, None if nobody follows them.
        after_session: awaited when the model has let go of a session, before the next one begins.
    """

    def __init__(
        self,
        host: ModelHost,
        find_model: Callable[[], type[Model]],
        *,
        name: str,
        settings: Settings,
        debug: bool = False,
        worker: Worker,
        disk: Disk = trio.to_thread.run_sync,
        on_phase: Callable[[str], object] | None = None,
        find_moderation: Callable[[], Check | None] = lambda: None,
        tracing: Tracing | None = None,
        after_session: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.host = host
        self.name = name
        self.settings = settings
        self.metrics = Metrics(name, self._model_state)
        self.tracing = tracing
        #: what its clients must show
        self.access = Access(settings.auth, name)
        self.room = WaitingRoom(
            Admission(settings.max_sessions, settings.queue), settings.takeover, settings.limits.waiting_per_address
        )
        #: what `GET /schema` answers, None until the model is loaded
        self.schema: dict[str, Any] | None = None
        self._began = trio.current_time()
        self.journal = Journal(self._began)
        self.farewell_timeout = max(settings.drain_grace / 2, 0.1)
        #: the author's exception that ended the last session which one ended, or the model itself
        self.last_error: BaseException | None = None
        #: why the model is not free although no session runs; None: it is
        self.stuck: str | None = None
        #: why the server goes down, as its clients are told
        self.goodbye: EndReason = "draining"
        #: seconds that sessions may go on when the server goes down, and until when they may; None: it does not
        self.drain_notice = settings.drain_notice
        self.drains_at: float | None = None
        #: what encodes each codec here, best first; empty until `prepared`
        self.encoders: dict[str, str] = {}
        #: set when nothing is left to be found out that a client has to wait for, and when nothing of the start is left
        self.prepared, self.at_rest = trio.Event(), trio.Event()
        #: set when the server begins to go down
        self.draining = trio.Event()
        self._drained = trio.Event()
        self.sessions = Sessions()
        self.model_loop = ModelLoop(host)
        self._find_model = find_model
        self._find_moderation = find_moderation
        self._after_session = after_session
        self._declaration: Declaration | None = None
        self._debug = debug
        self._worker = worker
        self._disk = disk
        self._on_phase = on_phase or (lambda _phase: None)
        self._clients: Clients | None = None
        self._left = Bell()
        self._recordings: Path | None = None
        self._services: SessionServices | None = None

    # ---- life ---------------------------------------------------------------------------------------------------------

    async def load(self, config: dict[str, Any]) -> None:
        """Import, make and load the model, on its thread.

        Raises ManifestError if it cannot be imported, the encoder that the settings choose cannot be opened or the folder
        for recordings cannot be made, ModelFailed with the author's exception as cause.
        """
        self._on_phase("loading")
        try:
            self._recordings = recording_folder(self.settings.record)
            if self.settings.codec.h264 != "auto":  # chosen, so it must be there
                await self._worker(encoders, self.settings.codec)
            self._declaration, self._services = await self.host.run(self._load, config)
            self.schema = {"name": self.name, "protocol": PROTOCOL, **self.declaration.schema()}
        except ManifestError as unusable:
            self._failed(str(unusable))
            raise
        except trio.Cancelled:
            raise
        except BaseException as raised:
            if self.model_loop.is_interrupt(raised):
                raise
            error = with_twin(raised) if isinstance(raised, Exception) else raised
            self._failed(f"load() failed: {type(error).__name__}: {error}")
            raise ModelFailed(f"{self.name}: load() raised {type(error).__name__}: {error}") from error

    async def open_doors(self) -> None:
        """Let clients in, once `watch_model` runs; a `run()` that ends at once is never served."""
        await self.host.run(self._two_turns)
        await trio.lowlevel.checkpoint()
        if self.journal.phase == "loading":
            self.room.admission.open_doors()
            self.journal.enter("ready", trio.current_time())
            self.metrics.ready = True
            self.metrics.load_seconds = trio.current_time() - self._began
            self._on_phase("ready")

    async def prepare(self) -> None:
        """Once the server is ready: import what only clients need, and find out what encodes each codec.

        Raises ModelFailed if a library that is installed cannot be imported.
        """
        try:
            self.encoders = await self._worker(prepare, self.settings.codec)
            self.prepared.set()
            await self._worker(prepare_rest, self.settings.codec)
        except Exception as error:
            what = f"what is installed cannot be used: {type(error).__name__}: {error}"
            self._failed(what)
            raise ModelFailed(f"{self.name}: {what}") from error
        self.at_rest.set()

    async def watch_model(self) -> None:
        """Run the model's own loop for the server's life. Raises ModelFailed when it ends, or a session ends the model."""
        what, cause = await self.model_loop.until_ended(self.model, self.declaration)
        failure = ModelFailed(f"{self.name}: {what}")
        self.last_error = cause if isinstance(cause, Exception) else failure
        self._failed(what)
        for session in self.sessions:
            session.end("model_error")
        with trio.move_on_after(self.settings.drain_grace):
            await self.clients.all_left()
        raise failure from cause

    async def drain(self) -> None:
        """Refuse newcomers, give sessions their notice, end them in their order, say goodbye.

        Returns when all have left or notice and grace are over; a second call returns with the first. A server whose
        clients are told `model_restarting` gives no notice.
        """
        if self.journal.phase == "draining":
            await self._drained.wait()
        if self.journal.phase != "ready":
            return
        try:
            await self._drain(0 if self.goodbye == "model_restarting" else self.drain_notice)
        finally:
            self._drained.set()

    async def _drain(self, notice: float) -> None:
        self.journal.enter("draining", trio.current_time())
        self.drains_at = trio.current_time() + notice
        self._on_phase("draining")
        self.draining.set()
        self.metrics.ready = False
        self.room.drain()
        if notice:
            for session in self.sessions:
                session.lifetime.announce(notice)
            with trio.move_on_at(self.drains_at):
                while self.sessions:
                    await self._left.wait()
        for session in self.sessions:
            session.end(self.goodbye)
        with trio.move_on_after(self.settings.drain_grace / 2):
            await self.clients.all_left()
        for outbound in self.clients:
            outbound.end(self.goodbye)
        with trio.move_on_after(self.settings.drain_grace / 2):
            await self.clients.all_left()
        self.journal.enter("drained", trio.current_time())
        self._on_phase("drained")

    def revoke(self, session_id: str) -> bool:
        """End a session: its clients are told `revoked`. False if none of this id runs. Never raises."""
        session = self.sessions.find(session_id)
        if session is not None:
            session.end("revoked")
        return session is not None

    # ---- what connections ask -----------------------------------------------------------------------------------------

    def outbound(self, hello: Hello) -> Outbound:
        """The way out to a new client."""
        return self.clients.join(hello)

    def inbound(self, outbound: Outbound) -> Inbound:
        """The way in of the client that `outbound` leads to."""
        return self.clients.inbound(outbound)

    def enter(self, outbound: Outbound) -> Place:
        """A place for a controlling client. Raises Refused."""
        sid = secrets.token_hex(8)

        def send_away(reason: EndReason) -> None:
            if (session := self.sessions.find(sid)) is not None:
                session.end(reason)
            else:
                outbound.end(self.goodbye if reason == "draining" else reason)

        def why() -> EndReason | None:
            session = self.sessions.find(sid)
            return outbound.end_reason or (None if session is None else session.reason)

        place = self.room.enter(
            sid,
            outbound.hello,
            lambda position, total: outbound.say(
                "reactor.queued", {"position": position, "total": total} | ({"reason": self.stuck} if self.stuck else {})
            ),
            send_away,
            why,
        )
        self._show_queue()
        return place

    def leave(self, outbound: Outbound) -> None:
        """The connection is over."""
        self.clients.leave(outbound)
        self._show_queue()

    def open_session(self, sid: str, outbound: Outbound) -> Session:
        """A new session; whoever opened it runs it."""
        length = outbound.hello.claims.session_length
        session = Session(sid, self._loaded(), (outbound.number, outbound.joined_at), self._session_over, length)
        tiers = Tiers(self.settings.codec, self._worker, self.clients.max_age, self.metrics.encoded)
        stage = self.sessions.begin(session, tiers)
        self._show_queue()
        if self._recordings is not None:
            stage.recording = self._record(session, self._recordings)
        log.info("session %s begins", sid)
        return session

    async def run_session(self, session: Session) -> None:
        """Run a session that was opened; returns when the model has let go of it and its recording is complete."""
        stage = self.sessions.stage(session)
        recording, stage.recording = stage.recording, None  # it knows the session, whose stages go with it
        try:
            await (session.run() if recording is None else recording.run_session())
        finally:
            if self._after_session is not None:
                await self._after_session()

    def session_to_view(self, hello: Hello) -> Session | None:
        """The session that a viewer may watch."""
        return self.sessions.to_view(hello.token)

    def tiers(self, session: Session) -> Tiers:
        """The encoders of a session."""
        return self.sessions.stage(session).tiers

    def welcome(self, session: Session, outbound: Outbound, hello: Hello) -> Welcome:
        """What a client is told first."""
        return Welcome(
            session_id=session.id, protocol=PROTOCOL, name=self.name, role=hello.role,
            heartbeat=self.settings.limits.ping_interval, resume_token=None,
            upload_token=session.uploads.token if session.uploads is not None and hello.role == "control" else None,
            schema=self.schema or {},
            tracks=[
                replace(track, codecs=input_codecs(track.kind)) if track.direction == "in" else track
                for track in outbound.track_infos
            ],
            share_token=self.sessions.stage(session).share_token if hello.role == "control" else None,
        )  # fmt: skip

    @property
    def declaration(self) -> Declaration:
        """What the model declares."""
        assert self._declaration is not None, "the model is not loaded"
        return self._declaration

    @property
    def model(self) -> Model:
        """The loaded model."""
        return self._loaded().model

    @property
    def clients(self) -> Clients:
        """Who is connected, those who wait counted; asked for once the model is loaded."""
        if self._clients is None:
            tracks = self.declaration.tracks
            self._clients = Clients(tracks, self.settings, self.metrics, self._worker, self.tracing, self._left)
        return self._clients

    @property
    def present(self) -> int:
        """Clients connected."""
        return 0 if self._clients is None else len(self._clients)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _record(self, session: Session, folder: Path) -> SessionRecording:
        hello = recorder_hello()
        outbound = self.clients.stranger(hello)
        outbound.join(self.tiers(session))
        welcome = self.welcome(session, outbound, hello)
        return SessionRecording(folder, session, outbound, welcome, self._disk, self.metrics.dropped)

    async def _two_turns(self) -> None:
        """After these `run()`, which was started before, has had its first."""
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    async def _load(self, config: dict[str, Any]) -> tuple[Declaration, SessionServices]:
        model_class, moderate = self._find_model(), self._find_moderation()  # a mistake in either is found before the load
        loaded = await load_model(model_class, config, self.host, self.settings, self.metrics.dropped)
        return loaded.declaration, session_services(
            loaded, self.host, self.settings, self.metrics, debug=self._debug, disk=self._disk, moderate=moderate,
            stuck=self._stuck, commanded=self._commanded,
        )  # fmt: skip

    def _loaded(self) -> SessionServices:
        assert self._services is not None, "the model is not loaded"
        return self._services

    def _session_over(self, session: Session) -> None:
        self.sessions.end(session)
        assert session.reason is not None
        self.metrics.session_ended(session.reason, trio.current_time() - session.began)
        if self.tracing is not None:
            self.tracing.session_over(session.controller)
        if session.error is not None:
            self.last_error = session.error
            if not isinstance(session.error, Exception):
                self.model_loop.killed(session.error)
        log.info("session %s ended: %s", session.id, session.reason)
        self._show_queue()
        self._left.ring()

    def _commanded(self, command: CommandRecord) -> None:
        self.metrics.commanded(_OUTCOMES.get(command.code, "refused"), command.answered - command.at)
        if self.tracing is not None:
            self.tracing.commanded(command)

    def _model_state(self) -> ModelState:
        if self.stuck is not None:
            return "stuck"
        match self.journal.phase:
            case "loading" | "ready" | "failed" as phase:
                return phase
        return "draining"

    def _stuck(self, sid: str, stuck: bool) -> None:
        self.stuck = f"a step of {self.name} still computes for session {sid}, which has ended" if stuck else None
        self.room.tell_again()

    def _failed(self, reason: str) -> None:
        self.journal.enter("failed", trio.current_time(), reason)
        self.metrics.ready = False
        self._on_phase("failed")
        self.room.drain()

    def _show_queue(self) -> None:
        self.metrics.live = self.room.admission.live
        self.metrics.waiting = self.room.admission.waiting
