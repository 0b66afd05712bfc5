"""The life of one server, without sockets: load the model, admit clients, watch `run()`, drain.

    Runtime.run -> load -> nursery -+- watch_model   run() of a run-loop model; the server ends with it
                                    +- prepare       imports and probes that the first client waits for
                                    '- listeners     a task for each connection: serve_client(session_manager, ...)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import trio

from reactor_trio.admission import Admission, Phase, PhaseJournal
from reactor_trio.concurrency import FailureLog, log_author_error
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.access import Access
from reactor_trio.edge.common_routes import ModelSchema
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.interface.model import Model
from reactor_trio.leases.book import Leases
from reactor_trio.media import encoders
from reactor_trio.placement.model_run import ModelEnding
from reactor_trio.placement.placement import LoadPlacement, Placement
from reactor_trio.placement.restarts import Restarts
from reactor_trio.protocol import EndReason
from reactor_trio.server.load_progress import LoadProgress
from reactor_trio.server.model_health import ModelHealth
from reactor_trio.server.model_schema import model_schema
from reactor_trio.server.one_failure import one_failure
from reactor_trio.server.preparation import Preparation
from reactor_trio.server.runtime_parts import NO_OBSERVERS, Observers, ProcessParts
from reactor_trio.server.server_facts import ServedModel, ServerFacts
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.server.session_manager import SessionManager
from reactor_trio.server.waiting_room import WaitingRoom
from reactor_trio.session import Session, SessionServices

log = logging.getLogger("reactor_trio.server")

#: accepts clients, and runs their connections in the nursery that it gets
Listener = Callable[[trio.Nursery], Awaitable[None]]


class Runtime:
    """Serves one model: owns its placement, its sessions, its metrics and its phases.

    Args:
        load_placement: loads the model where it runs.
        name: for welcome, health and log.
        parts: what the process has for the server.
        observers: called by the server.
        introduction: how the model introduces itself, with its pictures.
        debug: whether clients get the text of an author's exception.
    """

    def __init__(
        self, load_placement: LoadPlacement, *, name: str, settings: Settings, parts: ProcessParts,
        observers: Observers = NO_OBSERVERS, introduction: Introduction = NOT_INTRODUCED, debug: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.settings = name, settings
        self.load_placement = load_placement
        self._parts, self._introduction, self._debug = parts, introduction, debug
        #: checks the credentials of clients
        self.access = Access(settings.auth, name)
        per_address = settings.limits.waiting_per_address
        admission = Admission(settings.max_sessions or 1, settings.queue, settings.claim_within, per_address)
        self.waiting_room = WaitingRoom(
            admission, settings.takeover, lambda sid, reason: self.leases.slot_free(sid, reason),
            lambda: [session.lifetime.ends_at for session in self.sessions], settings.limits.session_length or math.inf,
        )  # fmt: skip
        self._load_began = trio.current_time()
        self.journal = PhaseJournal(self._load_began, observers.on_phase)
        progress = LoadProgress(observers.on_progress, self.waiting_room.tell_again)
        health = ModelHealth(name, settings.first_step_timeout, self.waiting_room.tell_again)
        #: what all parts of the server read about it
        self.facts = ServerFacts(name, settings, introduction, parts.lag, self.journal, progress, health, admission)
        self.metrics = Metrics(self.facts, parts.tracing, lambda: len(self.session_manager.away))
        #: why the model has ended for good, until `run` raises it
        self.failure: ModelFailed | None = None
        self._failures = FailureLog()
        #: until when sessions may go on in a drain
        self.drains_at = -math.inf
        #: what a client with a picture waits for
        self.preparation = Preparation(parts.worker, settings.codec)
        #: set when the server begins to go down: it drains, or its model has failed for good
        self.closing = trio.Event()
        self._drained = trio.Event()
        self._config: dict[str, Any] = {}
        #: the slots promised to a gate
        self.leases = Leases(self.waiting_room)
        #: serves the connections
        self.session_manager = SessionManager(
            self.facts, self.metrics, self.waiting_room, self.leases, self.access.secrets, parts, observers.on_session
        )  # fmt: skip

    # ---- life ---------------------------------------------------------------------------------------------------------

    async def run(
        self,
        config: dict[str, Any],
        *,
        listeners: Sequence[Listener] = (),
        watch: Callable[[Runtime], Awaitable[None]] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Load the model and serve it until cancelled; started once the model is ready.

        Args:
            listeners: run from before the load on, so that the port answers meanwhile. Each gets the nursery of its
                connections.
            watch: runs instead of `watch_model`, which it must call.

        Raises as `load`, `prepare` and `watch_model` do.
        """
        with one_failure():
            async with self.session_manager.codec_pool.closing(), trio.open_nursery() as nursery:
                nursery.start_soon(self.waiting_room.run)
                nursery.start_soon(self.leases.run)
                nursery.start_soon(self.facts.progress.run)
                if (free_memory := self._parts.free_memory) is not None:
                    nursery.start_soon(free_memory.when_idle, lambda: self.sessions, lambda: self.placement.idle())
                await nursery.start(self.session_manager.run)
                for listener in listeners:
                    nursery.start_soon(listener, nursery)
                await self.load(config)
                nursery.start_soon(self.session_manager.clean_worlds)
                nursery.start_soon(watch or Runtime.watch_model, self)
                await self.admit_clients()
                nursery.start_soon(self.prepare)
                task_status.started()

    async def load(self, config: dict[str, Any]) -> None:
        """Import, make and load the model where it runs.

        Raises ManifestError if the model cannot be imported, the encoder of the settings cannot be opened, or the folder for
        recordings cannot be made; ModelFailed with the author's exception as cause.
        """
        self._config = config
        try:
            if self.settings.record is not None:
                from reactor_trio.server.session_recording import recording_folder

                self.session_manager.recordings = recording_folder(self.settings.record)
            if self.settings.codec.h264 != "auto":  # the settings name one, so it must exist
                await self._parts.worker(encoders, self.settings.codec)
            await self._load()
        except (ManifestError, ModelFailed) as error:
            self._fail(str(error).removeprefix(f"{self.name}: "))
            raise

    async def admit_clients(self) -> None:
        """Admit clients, once `watch_model` runs. A `run()` that ends at once is never served."""
        await self.placement.begin()
        if self.journal.phase == "loading":
            self.waiting_room.start_admitting()
            self.facts.progress.reset()
            self.metrics.loaded(trio.current_time() - self._load_began)
            self.enter("ready")

    async def prepare(self) -> None:
        """Run the `preparation`, once the server is ready. Raises ModelFailed if an installed library cannot be imported."""
        try:
            await self.preparation.run()
        except Exception as error:
            what = f"what is installed cannot be used: {type(error).__name__}: {error}"
            await self._end_for_good(what, error, self.waiting_room.drain_reason or "replica_failed")

    @property
    def drain_reason(self) -> EndReason:
        """The end reason that clients get when the server goes down."""
        return self.waiting_room.drain_reason or "draining"

    async def watch_model(self) -> None:
        """Run the model's own loop for the server's life, and load the model again if its process ends.

        Raises ModelFailed when the loop ends, a session ends the model, or the model cannot be loaded again.
        """
        restarts = Restarts()
        while (ending := await self.placement.until_ended()).restarts and self.journal.phase == "ready":
            await self._restart(ending, restarts)
        drained = self.waiting_room.drain_reason if ending.restarts else None  # a drain does not load again
        await self._end_for_good(ending.what, ending.cause, drained or "model_error")

    def begin_drain(self, reason: EndReason = "draining") -> None:
        """Refuse new clients from now on, for this reason; the first one counts. `serve` then drains, and returns."""
        self.closing.set()
        self.waiting_room.drain(reason)

    async def drain(self, reason: EndReason = "draining") -> None:
        """Refuse new clients, give sessions their notice, end them in order; for `reason`, unless the drain has begun.

        Returns when all clients have left, or when notice and grace are over; a second call returns with the first. For the
        reason "model_restarting" sessions get no notice.
        """
        self.begin_drain(reason)
        if self.journal.phase == "loading":  # the first load, or one after a restart
            await self.session_manager.all_left(self.settings.drain_grace)  # who waits hears why
        if self.journal.phase == "failed":  # the clients hear of the failure, as after `_end_for_good`
            await self.session_manager.all_left(self.settings.drain_grace)
        if self.journal.phase == "draining":
            await self._drained.wait()
        if self.journal.phase != "ready":
            return
        try:
            await self._drain(0 if self.drain_reason == "model_restarting" else self.settings.drain_notice)
        finally:
            self._drained.set()

    async def _drain(self, notice: float) -> None:
        self.drains_at = trio.current_time() + notice
        self.enter("draining")
        for served in self.session_manager.away:  # no client is connected that could get a notice
            served.session.end(self.drain_reason)
        if notice:
            for session in self.sessions:
                session.lifetime.announce(notice)
            with trio.move_on_at(self.drains_at):
                while self.sessions:
                    await self.session_manager.left.wait()
        for session in self.sessions:
            session.end(self.drain_reason)
        await self.session_manager.all_left(self.settings.drain_grace / 2)
        for sender in self.session_manager.clients:
            sender.end(self.drain_reason)
        await self.session_manager.all_left(self.settings.drain_grace / 2)
        if self.journal.phase == "draining":  # else the model has failed, and its clients have left
            self.enter("drained")

    def revoke(self, session_id: str) -> bool:
        """End the session with this id for the reason `revoked`, or free the slot that a gate has reserved for it.

        Returns False if there is neither. Never raises.
        """
        if (end := self.revocation(session_id)) is not None:
            end()
        return end is not None

    def revocation(self, session_id: str) -> Callable[[], object] | None:
        """Return what `revoke` would do; None for an id that it does not know."""
        if (served := self.session_manager.find(session_id)) is not None:
            return partial(served.session.end, "revoked")
        return partial(self.leases.cancel, session_id) if self.waiting_room.promises(session_id) else None

    def enter(self, phase: Phase, reason: str = "") -> None:
        """Enter a phase of the server. Raises ValueError if it cannot follow the current one."""
        self.journal.enter(phase, trio.current_time(), reason)

    # ---- read by others ----------------------------------------------------------------------------------------------

    @property
    def placement(self) -> Placement:
        """The newest load's model, at its place; not there before the first load."""
        return self.session_manager.loaded.services.placement

    @property
    def model(self) -> Model:
        """The loaded model."""
        assert self.placement.model is not None, "the model is in another process"
        return self.placement.model

    @property
    def sessions(self) -> list[Session]:
        """The sessions that run now."""
        return [served.session for served in self.session_manager.running]

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        self._load_began = trio.current_time()
        self.facts.progress.reset()
        placement = await self.load_placement(self._config, self.metrics)
        self.waiting_room.resize(placement.max_sessions)
        schema = model_schema(self.name, placement.declaration, self._introduction)
        worlds = None
        if placement.declaration.world is not None:  # late: models without Saves import none of it
            from reactor_trio.server.saved_worlds import open_worlds

            worlds = await open_worlds(placement, self.settings.worlds, schema, self._config, self._parts)
        parts, failures = self._parts, self._failures
        services = SessionServices(placement, self.settings, self._debug, parts.disk, failures, self.metrics, worlds)
        self.session_manager.model = ServedModel(services, ModelSchema(schema), self._config)

    async def _restart(self, ending: ModelEnding, restarts: Restarts) -> None:
        """End all sessions and load the model again. Clients that wait go on waiting; new ones are refused meanwhile."""
        restarts.gone(ending)
        gone_at = trio.current_time()
        log_author_error(log, ending.cause, "the model is gone: %s; its sessions end%s", ending.what, restarts.then(ending))
        self.metrics.model_restarted()
        for session in self.sessions:
            session.end("model_restarting")
        self.enter("loading", ending.what)
        self.waiting_room.stop_admitting()
        what, cause = restarts.why(ending), ending.cause
        while not restarts.given_up:
            await restarts.wait()
            try:
                await self._load()
            except (ManifestError, ModelFailed) as error:
                what, cause = str(error).removeprefix(f"{self.name}: "), error.__cause__
                log_author_error(log, cause, "%s%s", error, "" if restarts.given_up else "; trying again")
            else:
                restarts.loaded()
                log.info("the model is loaded again, %.1f s after its end", trio.current_time() - gone_at)
                await self.admit_clients()
                return
        await self._end_for_good(what, cause, self.waiting_room.drain_reason or "model_error")

    async def _end_for_good(self, what: str, cause: BaseException | None, reason: EndReason) -> NoReturn:
        """End all sessions and waits for `reason`, wait until the clients have left, and raise ModelFailed."""
        self.failure = ModelFailed(f"{self.name}: {what}")
        self.failure.__cause__ = cause
        self._fail(what, reason)
        for session in self.sessions:
            session.end(reason, what)
        # Shielded: a server that is cancelled now still reports the failure by its exit code. It drops its clients.
        await self.session_manager.all_left(self.settings.drain_grace, shield=True)
        try:
            raise self.failure
        finally:
            self.failure = None  # it has the frames of the author's code

    def _fail(self, what: str, reason: EndReason = "model_error") -> None:
        self.enter("failed", what)
        self.begin_drain(reason)
