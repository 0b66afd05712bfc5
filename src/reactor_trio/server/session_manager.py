"""What the connections of one server ask for: a place, a session, encoders, a welcome; `connection.Desk` for `converse`."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import Bell
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import Hello, Inbound, Outbound, Stay, Tiers
from reactor_trio.connection.resumable_session import Place as AnyPlace
from reactor_trio.interface.declaration import Declaration
from reactor_trio.media import Worker, input_codecs
from reactor_trio.media.codec_pool import Coders
from reactor_trio.protocol import PROTOCOL, EndReason, Welcome
from reactor_trio.server.connected_clients import Clients
from reactor_trio.server.resumable_sessions import Begin, Stays
from reactor_trio.server.run_facts import run_facts
from reactor_trio.server.running_sessions import Sessions
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.server.session_recording import SessionRecording, recorder_hello
from reactor_trio.server.tracing import Tracing
from reactor_trio.server.waiting_room import Place, WaitingRoom
from reactor_trio.session import Session, SessionServices
from reactor_trio.session.upload_store import Disk

log = logging.getLogger("reactor_trio.server")


class House(Protocol):
    """What the desk asks of the server whose desk it is.

    Attributes:
        schema: what `GET /schema` answers, None until the model is loaded.
        goodbye: why the server goes down, as its clients are told.
        stuck: why the model is not free although no session runs; None: it is.
        config: what the model's `load` got.
    """

    name: str
    settings: Settings
    metrics: Metrics
    room: WaitingRoom
    tracing: Tracing | None
    schema: dict[str, Any] | None
    goodbye: EndReason
    stuck: str | None
    config: dict[str, Any]

    @property
    def declaration(self) -> Declaration:
        """What the model declares."""

    @property
    def services(self) -> SessionServices:
        """What each session is given."""

    def session_begins(self, session: Session) -> None:
        """A client is let in."""

    def session_over(self, session: Session) -> None:
        """A session has ended, and the desk has let go of it."""


class FrontDesk:
    """The desk of one server.

    Args:
        worker: runs encoders and decoders away from the loop.
        disk: writes recordings away from the loop.
        after_session: awaited when the model has let go of a session, before the next one begins.

    Attributes:
        left: rung when a client has left or a session is over.
        recordings: the folder for recordings, None if nothing is recorded.
        stays: the sessions with their controlling clients; its `run` is a task of the server.
        coders: encoders and decoders at work.
    """

    def __init__(
        self, house: House, worker: Worker, disk: Disk, after_session: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.farewell_timeout = max(house.settings.drain_grace / 2, 0.1)
        self.sessions = Sessions()
        self.stays = Stays(house.settings.resume_window)
        self.left = Bell()
        self.recordings: Path | None = None
        self._house = house
        self.coders = Coders(worker, house.settings.codec.timeout)
        self._disk = disk
        self._after_session = after_session
        self._clients: Clients | None = None

    @property
    def clients(self) -> Clients:
        """Who is connected, those who wait counted; asked for once the model is loaded."""
        if self._clients is None:
            house = self._house
            self._clients = Clients(
                house.declaration.tracks, house.settings, house.metrics, self.coders, house.tracing, self.left
            )
        return self._clients

    @property
    def present(self) -> int:
        """Clients connected."""
        return 0 if self._clients is None else len(self._clients)

    def stay(self, hello: Hello) -> Stay | None:
        """What a client comes back to."""
        return self.stays.of_token(hello.resume)

    def outbound(self, hello: Hello) -> Outbound:
        """The way out to a new client, or to one that comes back."""
        return self.clients.join(hello, self.stay(hello))

    def inbound(self, outbound: Outbound) -> Inbound:
        """The way in of the client that `outbound` leads to."""
        return self.clients.inbound(outbound)

    def enter(self, outbound: Outbound) -> Place:
        """A place for a controlling client. Raises Refused."""
        sid = outbound.hello.claims.session_id or secrets.token_hex(8)

        def send_away(reason: EndReason) -> None:
            if (session := self.sessions.find(sid)) is not None:
                session.end(reason)
            else:
                outbound.end(self._house.goodbye if reason == "draining" else reason)

        def why() -> EndReason | None:
            stay = self.stays.find(sid)
            return outbound.end_reason if stay is None else stay.end_reason

        def moved(position: int, total: int) -> None:
            stuck = self._house.stuck
            outbound.say("reactor.queued", {"position": position, "total": total} | ({"reason": stuck} if stuck else {}))

        place = self._house.room.enter(sid, outbound.hello, moved, send_away, why)
        self._show_queue()
        return place

    def leave(self, outbound: Outbound) -> None:
        """The connection is over."""
        self.clients.leave(outbound)
        self._show_queue()

    def home(self) -> AbstractAsyncContextManager[Begin]:
        """Where a stay runs."""
        return self.stays.home()

    def open_stay(self, place: AnyPlace, outbound: Outbound) -> Stay:
        """A session for an admitted client; whoever opened it runs it, at home."""
        session = self.open_session(place.sid, outbound)
        stay = Stay(session, place, outbound, self.stays.window, self.run_session, self._stay_changed)
        self.stays.add(stay)
        return stay

    async def all_left(self) -> None:
        """Return when nobody is there and no session runs."""
        while self.present or self.sessions:
            await self.left.wait()

    def open_session(self, sid: str, outbound: Outbound) -> Session:
        """A new session; whoever opened it runs it."""
        length = outbound.hello.claims.session_length
        session = Session(sid, self._house.services, (outbound.number, outbound.joined_at), self._session_over, length)
        tiers = Tiers(self._house.settings.codec, self.coders, self.clients.max_age, self._house.metrics.encoded)
        stage = self.sessions.begin(session, tiers)
        self._show_queue()
        if self.recordings is not None:
            stage.recording = self._record(session, self.recordings)
        self._house.session_begins(session)
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

    def welcome(self, session: Session, outbound: Outbound, hello: Hello, stay: Stay | None = None) -> Welcome:
        """What a client is told first; the controlling one by its stay."""
        may_return = stay is not None and stay.token is not None
        resumed = stay is not None and hello.resume is not None
        missed = stay.transcript.missed_after(hello.after) if stay is not None and resumed else 0
        if resumed:
            self._house.metrics.resumed(missed)
        return Welcome(
            session_id=session.id, protocol=PROTOCOL, name=self._house.name, role=hello.role,
            heartbeat=self._house.settings.limits.ping_interval, resume_token=None if stay is None else stay.token,
            upload_token=session.uploads.token if session.uploads is not None and hello.role == "control" else None,
            schema=self._house.schema or {},
            tracks=[
                replace(track, codecs=input_codecs(track.kind)) if track.direction == "in" else track
                for track in outbound.track_infos
            ],
            share_token=self.sessions.stage(session).share_token if hello.role == "control" else None,
            resume_window=self.stays.window if may_return and math.isfinite(self.stays.window) else None,
            resumed=resumed, received=0 if stay is None else stay.received, missed=missed,
            state=session.values.welcome(outbound.number),
        )  # fmt: skip

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _record(self, session: Session, folder: Path) -> SessionRecording:
        hello = recorder_hello()
        outbound = self.clients.stranger(hello)
        outbound.join(self.tiers(session))
        welcome = self.welcome(session, outbound, hello)
        run = run_facts(self._house.declaration.model, self._house.config, session.id)
        return SessionRecording(folder, session, outbound, welcome, self._disk, run, self._house.metrics.dropped)

    def _session_over(self, session: Session) -> None:
        self.sessions.end(session)
        self._house.session_over(session)
        log.info("session %s ended: %s", session.id, session.reason)
        self._show_queue()
        self.left.ring()

    def _stay_changed(self, stay: Stay) -> None:
        self.stays.changed(stay)
        if stay.away and self._house.room.admission.open == "draining":  # nobody is there to be told
            stay.session.end(self._house.goodbye)
        self._house.metrics.away = len(self.stays.away)
        self.left.ring()

    def _show_queue(self) -> None:
        metrics, admission = self._house.metrics, self._house.room.admission
        metrics.live, metrics.waiting = admission.live, admission.waiting
