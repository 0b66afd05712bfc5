"""The life of one server, without sockets: load the model, open the doors, watch `run()`, drain.

    a placement     -> Runtime.load -> nursery -+- Runtime.watch_model   run() of a run-loop model; its end is the server's
                                                +- Runtime.prepare       what the first client needs; it waits for that
                                                '- connections           converse(runtime.desk, ...), one task each
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import trio

from reactor_trio.admission import Admission, Journal
from reactor_trio.concurrency import FailureLog
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.execution.placement import Ending, Placed, Placement
from reactor_trio.execution.restarts import Restarts
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.media import Worker, encoders
from reactor_trio.protocol import PROTOCOL, EndReason
from reactor_trio.server.leases import Leases
from reactor_trio.server.running_sessions import RunningSessions
from reactor_trio.server.server_metrics import ModelState
from reactor_trio.server.server_telemetry import ServerTelemetry
from reactor_trio.server.session_manager import SessionManager
from reactor_trio.server.session_recording import recording_folder
from reactor_trio.server.session_settings import session_services
from reactor_trio.server.tracing import Tracing
from reactor_trio.server.waiting_room import WaitingRoom
from reactor_trio.server.warm_up import prepare, prepare_rest
from reactor_trio.session import Session, SessionServices
from reactor_trio.session.upload_store import Disk

log = logging.getLogger("reactor_trio.server")

#: accepts clients, and runs their connections in the nursery that it gets
Transport = Callable[[trio.Nursery], Awaitable[None]]


@contextmanager
def one_failure() -> Generator[None, None, None]:
    """A model that failed comes out of the block as one ModelFailed or ManifestError, however many nurseries it passed."""
    try:
        yield
    except BaseExceptionGroup as group:
        failed, others = group.split((ModelFailed, ManifestError))
        if failed is None or others is not None:
            raise
        error: BaseException = failed
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from error.__cause__


class Runtime:
    """One loaded model and those it serves.

    Args:
        placement: where the model runs.
        name: for welcome, health and log.
        debug: whether clients are told the text of an author's exception.
        worker: runs encoders and decoders away from the loop.
        disk: writes and reads uploaded files away from the loop.
        on_phase: told each phase the server enters.
        tracing: is told what becomes of commands, None if nobody follows them.
        after_session: awaited when the model has let go of a session, before the next one begins.
        on_session: called with each session that begins.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        name: str,
        settings: Settings,
        debug: bool = False,
        worker: Worker,
        disk: Disk = trio.to_thread.run_sync,
        on_phase: Callable[[str], object] | None = None,
        tracing: Tracing | None = None,
        after_session: Callable[[], Awaitable[None]] | None = None,
        on_session: Callable[[Session], object] = lambda _session: None,
    ) -> None:
        self.placement = placement
        self.name = name
        self.settings = settings
        #: what its clients must show
        self.access = Access(settings.auth, name)
        self.room = WaitingRoom(
            Admission(settings.max_sessions or 1, settings.queue, settings.claim_within),
            settings.takeover, settings.limits.waiting_per_address,
        )  # fmt: skip
        #: what its sessions and connections report to
        self.metrics = ServerTelemetry(name, self._model_state, tracing, self.room.tell_again)
        #: what `GET /schema` answers, None until the model is loaded
        self.schema: dict[str, Any] | None = None
        self._load_began = trio.current_time()
        self.journal = Journal(self._load_began)
        #: the author's exception that ended the last session which one ended, or the model itself
        self.last_error: BaseException | None = None
        self._failures = FailureLog()
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
        #: what the model's `load` got
        self.config: dict[str, Any] = {}
        self._placed: Placed | None = None
        self._debug = debug
        self._worker = worker
        self._disk = disk
        self._on_session = on_session
        self._on_phase = on_phase or (lambda _phase: None)
        self._services: SessionServices | None = None
        #: what connections ask
        self.session_manager = SessionManager(self, worker, disk, after_session)
        #: what is promised to a gate
        self.leases = Leases(self.room)

    # ---- life ---------------------------------------------------------------------------------------------------------

    async def run(
        self,
        config: dict[str, Any],
        *,
        transports: Sequence[Transport] = (),
        watch: Callable[[Runtime], Awaitable[None]] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Load the model and serve it until cancelled; started once the model is ready.

        Args:
            transports: run from before the load on, so that the port answers meanwhile. Each gets the nursery of its
                connections.
            watch: runs instead of `watch_model`, which it must call.

        Raises as `load`, `prepare` and `watch_model` do.
        """
        with one_failure():
            async with self.session_manager.codec_pool.closing(), trio.open_nursery() as nursery:
                nursery.start_soon(self.room.run)
                nursery.start_soon(self.leases.run)
                await nursery.start(self.session_manager.resumables.run)
                for transport in transports:
                    nursery.start_soon(transport, nursery)
                await self.load(config)
                nursery.start_soon(watch or Runtime.watch_model, self)
                await self.open_doors()
                nursery.start_soon(self.prepare)
                task_status.started()

    async def load(self, config: dict[str, Any]) -> None:
        """Import, make and load the model, where it runs.

        Raises ManifestError if it cannot be imported, the encoder that the settings choose cannot be opened or the folder
        for recordings cannot be made, ModelFailed with the author's exception as cause.
        """
        self._on_phase("loading")
        self.config = config
        try:
            self.session_manager.recordings = recording_folder(self.settings.record)
            if self.settings.codec.h264 != "auto":  # chosen, so it must be there
                await self._worker(encoders, self.settings.codec)
            await self._load()
        except (ManifestError, ModelFailed) as error:
            self._failed(str(error).removeprefix(f"{self.name}: "))
            raise

    async def open_doors(self) -> None:
        """Let clients in, once `watch_model` runs; a `run()` that ends at once is never served."""
        await self.placement.begin()
        if self.journal.phase == "loading":
            self.room.open_doors()
            self.journal.enter("ready", trio.current_time())
            self.metrics.ready = True
            self.metrics.load_seconds = trio.current_time() - self._load_began
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
        """Run the model's own loop for the server's life, and load the model again if its process ends.

        Raises ModelFailed when the loop ends, a session ends the model, or it does not come back.
        """
        restarts = Restarts()
        while (ending := await self.placement.until_ended()).restarts:
            await self._restart(ending, restarts)
        what, cause = ending.what, ending.cause
        failure = ModelFailed(f"{self.name}: {what}")
        self.last_error = cause if isinstance(cause, Exception) else failure
        self._failed(what)
        for session in self.sessions:
            session.end("model_error", what)
        # Shielded: a server that is asked to end now still says why it failed, to its clients and by its exit code.
        with trio.move_on_after(self.settings.drain_grace, shield=True):
            await self.session_manager.all_left()
        raise failure from cause

    async def drain(self) -> None:
        """Refuse newcomers, give sessions their notice, end them in their order, say goodbye.

        Returns when all have left or notice and grace are over; a second call returns with the first. A server whose
        clients are told `model_restarting` gives no notice.
        """
        if self.journal.phase == "draining":
            await self._drained.wait()
        if self.journal.phase == "loading":  # again, or the first time
            self.room.drain()
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
        for resumable in self.session_manager.resumables.away:  # nobody is there to be told
            resumable.session.end(self.goodbye)
        if notice:
            for session in self.sessions:
                session.lifetime.announce(notice)
            with trio.move_on_at(self.drains_at):
                while self.sessions:
                    await self.session_manager.left.wait()
        for session in self.sessions:
            session.end(self.goodbye)
        with trio.move_on_after(self.settings.drain_grace / 2):
            await self.session_manager.all_left()
        for sender in self.session_manager.clients:
            sender.end(self.goodbye)
        with trio.move_on_after(self.settings.drain_grace / 2):
            await self.session_manager.all_left()
        self.journal.enter("drained", trio.current_time())
        self._on_phase("drained")

    def revoke(self, session_id: str) -> bool:
        """End a session: its clients are told `revoked`; or give back the slot that a gate has reserved for it.

        False if there is neither of this id. Never raises.
        """
        if (session := self.sessions.find(session_id)) is None:
            return self.leases.cancel(session_id)
        session.end("revoked")
        return True

    # ---- what others ask ----------------------------------------------------------------------------------------------

    @property
    def declaration(self) -> Declaration:
        """What the model declares."""
        return self.services.declaration

    @property
    def model(self) -> Model:
        """The loaded model."""
        assert self._placed is not None, "the model is not loaded"
        assert self._placed.model is not None, "the model is in another process"
        return self._placed.model

    @property
    def services(self) -> SessionServices:
        """What each session is given."""
        assert self._services is not None, "the model is not loaded"
        return self._services

    @property
    def sessions(self) -> RunningSessions:
        """Those that run."""
        return self.session_manager.sessions

    def session_begins(self, session: Session) -> None:
        """A client is let in."""
        self.leases.begun(session.id)
        self._on_session(session)

    def session_over(self, session: Session) -> None:
        """A session has ended."""
        assert session.reason is not None
        self.leases.over(session.id, session.reason)
        self.metrics.session_over(session)
        if session.error is not None:
            self.last_error = session.error
            if not isinstance(session.error, Exception):
                self.placement.killed(session.error)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        self._load_began = trio.current_time()
        self._placed = placed = await self.placement.load(self.config, self.settings, self.metrics)
        self.room.admission.slots = placed.max_sessions
        self._services = session_services(
            placed, self.settings, self.metrics, debug=self._debug, disk=self._disk, failures=self._failures
        )  # fmt: skip
        self.schema = {"name": self.name, "protocol": PROTOCOL, **placed.declaration.schema()}

    async def _restart(self, ending: Ending, restarts: Restarts) -> None:
        """The model is gone: its sessions are told, newcomers wait, and it is loaded again."""
        log.error("the model is gone: %s; its sessions end, and it is loaded again", ending.what, exc_info=ending.cause)
        self.metrics.model_restarted()
        self.metrics.ready = False
        for session in self.sessions:
            session.end("model_restarting")
        if self.journal.phase != "ready":
            raise ModelFailed(f"{self.name}: {ending.what}") from ending.cause
        self.journal.enter("loading", trio.current_time(), ending.what)
        self.room.close_doors()
        self._on_phase("loading")
        restarts.gone()
        failure = ModelFailed(f"{self.name}: {ending.what}, soon after each of its last loads")
        failure.__cause__ = ending.cause
        while not restarts.given_up:
            await restarts.wait()
            try:
                await self._load()
            except ModelFailed as error:
                failure = error
                log.error("%s%s", error, "" if restarts.given_up else "; trying again", exc_info=error.__cause__)
            else:
                restarts.loaded()
                await self.open_doors()
                return
        self._failed(str(failure).removeprefix(f"{self.name}: "))
        raise failure

    def _model_state(self) -> ModelState:
        if self.metrics.stuck is not None:
            return "stuck"
        match self.journal.phase:
            case "loading" | "ready" | "failed" as phase:
                return phase
        return "draining"

    def _failed(self, reason: str) -> None:
        self.journal.enter("failed", trio.current_time(), reason)
        self.metrics.ready = False
        self._on_phase("failed")
        self.room.drain()

