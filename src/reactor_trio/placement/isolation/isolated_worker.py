"""The model's process: it loads the model, and runs the model's side of the server's sessions.

The main thread runs the loop that receives and sends IPC messages. The model has a loop and a thread of its own, as it has
in the server's process. So a step that blocks delays only messages for the model.
"""

from __future__ import annotations

import importlib
import logging
import pickle  # nosec B403 - from the process that started this one, over a socket pair that no other process has
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import trio

from reactor_trio.concurrency import ModelHost, author_error
from reactor_trio.concurrency.free_memory import MemoryReclaimer, trimmer
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.messages import BeginSession
from reactor_trio.crossing.socket_link import IpcLink
from reactor_trio.errors import DeclarationError
from reactor_trio.execution.author_failures import ends_process
from reactor_trio.interface.manifest_files import ManifestFiles, files_of_manifest
from reactor_trio.interface.model import Model
from reactor_trio.interpreter import settle
from reactor_trio.kinds.model_checks import CheckedModel, check_model
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.log_lines import follow_levels
from reactor_trio.placement.isolation.relay_channel import open_relay_channel
from reactor_trio.placement.isolation.relayed_worlds import RelayedWorlds
from reactor_trio.placement.isolation.session_relay import SessionRelay
from reactor_trio.placement.isolation.shared_frames import FrameExchange
from reactor_trio.placement.loading import LoadedModel, load_model
from reactor_trio.placement.model_run import ModelRun
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.model")

#: config, settings, files of the manifest
Given = tuple[dict[str, Any], Settings, ManifestFiles]
#: the file of a class may have changed before the class is loaded again; clients know the schema of before
CHANGED: Final = (
    "its class declares other tracks, commands or messages than when the server started: its file has changed. Restart the "
    "server, or undo the change"
)
#: see `load_model`
ModelLoader = Callable[..., Awaitable[LoadedModel]]


class WorkerModel:
    """How a process gets its model: it imports the class, and unpickles config and settings. The test kit has its own."""

    def find(self, path: str) -> type[Model]:
        """Return the class that `module:Class` names. Called on the model thread."""
        module, _, name = path.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        model: type[Model] = found
        return model

    def unpack(self, data: bytes) -> Given:
        """Return what `ModelProcess.pack` packed."""
        given: Given = pickle.loads(data)  # nosec B301 - see the import
        return given

    def model_loaded(self, model: Model) -> None:
        """Called on the model thread with the loaded model."""
        settle()


IMPORTED: Final = WorkerModel()


@dataclass(eq=False)
class ProcessWorker:
    """What every process of a model does: load it, report that to the server, and answer pings.

    Attributes:
        nursery: runs the worker's tasks; cancelled, it ends the worker.
    """

    link: IpcLink
    host: ModelHost
    nursery: trio.Nursery
    source: WorkerModel

    def receive(self, message: Any, session: int) -> None:
        """Process a message of the server about the session of this number, or about none."""
        match message:
            case ipc_messages.LoadModel():
                self.nursery.start_soon(self._load, message)
            case ipc_messages.Ping(number):
                self.host.post(self.host.post_io, self.link.send, ipc_messages.Pong(number))
            case ipc_messages.FreeMemory():
                self.nursery.start_soon(trio.to_thread.run_sync, MemoryReclaimer(trim=trimmer()).collect_and_return)

    async def load(
        self, checked: CheckedModel, config: dict[str, Any], settings: Settings
    ) -> ipc_messages.ModelLoaded:
        """Model loop: make and load the model."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Serve the loaded model."""
        raise NotImplementedError

    async def _load(self, message: ipc_messages.LoadModel) -> None:
        sys.path[:] = message.path
        follow_levels(message.levels)
        with ExitStack() as until_the_end:
            try:
                config, settings, files = self.source.unpack(message.given)
                until_the_end.enter_context(files_of_manifest(files))
                loaded = await self.host.run(self._find_and_load, message, config, settings)
            except trio.Cancelled:
                raise
            except BaseException as error:
                self.link.send(ipc_messages.LoadFailed(Failure.of(author_error(error))))
                return
            self.link.send(loaded)
            await self.serve()

    async def _find_and_load(
        self, message: ipc_messages.LoadModel, config: dict[str, Any], settings: Settings
    ) -> ipc_messages.ModelLoaded:
        checked = check_model(self.source.find(message.model), settings)
        if checked.schema["schema_hash"] != message.schema_hash:
            raise DeclarationError(CHANGED)
        return await self.load(checked, config, settings)


class ToServer(Telemetry):
    """Passes on to the server's process what only that can count or show."""

    def __init__(self, link: IpcLink) -> None:
        self._link = link

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """Report frames that were dropped."""
        self._link.send(ipc_messages.FramesDropped(place, reason, frames))

    def loading(self, fraction: float | None, text: str) -> None:
        """Report how far the load is."""
        self._link.send(ipc_messages.LoadReported(fraction, text))

    def stepped(self) -> None:
        """Report the first frame of a session."""
        self._link.send(ipc_messages.FirstStepMade())


async def work(
    link: IpcLink,
    host: ModelHost,
    frames: FrameExchange,
    *,
    source: WorkerModel = IMPORTED,
    load: ModelLoader = load_model,
    ends: Callable[[], object] = lambda: None,
) -> None:
    """Serve the server at the other end of `link` until it is gone or stops this process.

    Args:
        host: has the model loop; this function runs on the loop beside it.
        frames: those that this process and the server share.
        load: makes and loads the model; called on the model loop.
        ends: called when this process ends, before its sessions have unwound.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        worker = _Worker(link, host, nursery, source, frames, load)
        try:
            await link.receive(worker.receive)
        finally:
            ends()
            nursery.cancel_scope.cancel()


@dataclass(eq=False)
class _Worker(ProcessWorker):
    frames: FrameExchange
    load_model: ModelLoader
    sessions: dict[int, SessionRelay] = field(default_factory=dict)

    def receive(self, message: Any, session: int) -> None:
        if (relay := self.sessions.get(session)) is not None:
            relay.receive(message)
            return
        match message:
            case ipc_messages.StopModelProcess():
                self.nursery.cancel_scope.cancel()
            case ipc_messages.FramesReturned(numbers):
                self.frames.returned(numbers)
            case BeginSession(session_id, client, joined_at, at_world):
                send = partial(self.link.send, session=session)
                declaration = self._loaded.declaration
                worlds = None if declaration.world is None else RelayedWorlds(send)
                open_channel = partial(open_relay_channel, send, None if worlds is None else worlds.send)
                run = self._loaded.open_session_run(session_id, (client, joined_at), open_channel)
                relay = self.sessions[session] = SessionRelay(run, declaration, send, worlds, at_world)
                self.nursery.start_soon(self._run, session, relay)
            case _ if not session:
                super().receive(message, session)

    async def load(
        self, checked: CheckedModel, config: dict[str, Any], settings: Settings
    ) -> ipc_messages.ModelLoaded:
        self._loaded = await self.load_model(checked, config, self.host, settings, ToServer(self.link))
        self.source.model_loaded(self._loaded.model)
        return ipc_messages.ModelLoaded(self._loaded.max_sessions, self._loaded.weights())

    async def serve(self) -> None:
        ending = await ModelRun(self._loaded).until_ended()
        failure = None if ending.cause is None else Failure.of(ending.cause)
        self.link.send(ipc_messages.RunLoopEnded(ending.what, failure))

    async def _run(self, session: int, relay: SessionRelay) -> None:
        try:
            await relay.run()
        finally:
            del self.sessions[session]
        error = relay.raised or relay.fault
        if error is not None and ends_process(error):
            self.link.send(ipc_messages.ModelBroken(Failure.of(author_error(error))))
            self.nursery.cancel_scope.cancel()  # the end of this process ends all its sessions
            return
        relay.closed()
