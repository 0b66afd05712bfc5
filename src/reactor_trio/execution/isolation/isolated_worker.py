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
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy.typing as npt
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.free_memory import FreeMemory, trimmer
from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.input_lanes import InputReports
from reactor_trio.execution.isolation.process_link import IpcLink
from reactor_trio.execution.isolation.shared_frames import FrameExchange
from reactor_trio.execution.loading import LoadedModel, load_model
from reactor_trio.execution.local_model_session import LocalModelSession
from reactor_trio.execution.model_loop import ModelLoop
from reactor_trio.execution.model_session import FILE_UPLOADED, Answer
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.manifest_files import ManifestFiles, files_of_manifest
from reactor_trio.interface.model import Model
from reactor_trio.interpreter import settle
from reactor_trio.media import Bundle, to_host
from reactor_trio.protocol import TRANSPORT, transport_arguments
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.model")

#: config, settings, files of the manifest
Given = tuple[dict[str, Any], Settings, ManifestFiles]
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

    def receive(self, message: Any) -> None:
        """Process a message of the server."""
        match message:
            case ipc_messages.LoadModel():
                self.nursery.start_soon(self._load, message)
            case ipc_messages.Ping(number):
                self.host.post(self.host.post_io, self.link.send, ipc_messages.Pong(number))
            case ipc_messages.FreeMemory():
                self.nursery.start_soon(trio.to_thread.run_sync, FreeMemory(trim=trimmer()).collect_and_return)

    async def load(self, path: str, config: dict[str, Any], settings: Settings) -> int:
        """Model loop: make and load the model; return how many sessions it serves at the same time."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Serve the loaded model."""
        raise NotImplementedError

    async def _load(self, message: ipc_messages.LoadModel) -> None:
        sys.path[:] = message.path
        config, settings, files = self.source.unpack(message.given)
        with files_of_manifest(files):
            try:
                max_sessions = await self.host.run(self.load, message.model, config, settings)
            except trio.Cancelled:
                raise
            except BaseException as error:
                self.link.send(ipc_messages.LoadFailed(ipc_messages.Failure.of(error)))
                return
            self.link.send(ipc_messages.ModelLoaded(max_sessions))
            await self.serve()


class ToServer(Telemetry):
    """Passes on to the server's process what only that can count or show."""

    def __init__(self, link: IpcLink) -> None:
        self._link = link

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """See `Telemetry`."""
        self._link.send(ipc_messages.FramesDropped(None, place, reason, frames))

    def loading(self, fraction: float | None, text: str) -> None:
        """See `Telemetry`."""
        self._link.send(ipc_messages.LoadReported(fraction, text))

    def stepped(self) -> None:
        """See `Telemetry`."""
        self._link.send(ipc_messages.FirstStepMade())


async def work(
    link: IpcLink,
    host: ModelHost,
    frames: FrameExchange,
    *,
    source: WorkerModel = IMPORTED,
    load: ModelLoader = load_model,
) -> None:
    """Serve the server at the other end of `link` until it is gone or stops this process.

    Args:
        host: has the model loop; this function runs on the loop beside it.
        frames: those that this process and the server share.
        load: makes and loads the model; called on the model loop.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        worker = _Worker(link, host, nursery, source, frames, load)
        try:
            await link.receive(worker.receive)
        finally:
            nursery.cancel_scope.cancel()


@dataclass(eq=False)
class _Worker(ProcessWorker):
    frames: FrameExchange
    load_model: ModelLoader
    sessions: dict[str, _SessionStandIn] = field(default_factory=dict)

    def receive(self, message: Any) -> None:
        match message:
            case ipc_messages.LoadModel() | ipc_messages.Ping() | ipc_messages.FreeMemory():
                super().receive(message)
            case ipc_messages.StopModelProcess():
                self.nursery.cancel_scope.cancel()
            case ipc_messages.FramesReturned(numbers):
                self.frames.returned(numbers)
            case ipc_messages.BeginSession(session, client, joined_at):
                model_session = self._loaded.open_model_session(session, (client, joined_at))
                stand_in = self.sessions[session] = _SessionStandIn(session, self, model_session, self._loaded.declaration)
                self.nursery.start_soon(self._run, stand_in)
            case ipc_messages.InputFrameArrived():
                frame = self.frames.see(message.plane)  # also without that session: a frame must be seen to be returned
                if message.session in self.sessions:
                    self.sessions[message.session].take_input(message, frame)
            case _:
                if message.session in self.sessions:
                    self.sessions[message.session].receive(message)

    async def load(self, path: str, config: dict[str, Any], settings: Settings) -> int:
        self._loaded = await self.load_model(self.source.find(path), config, self.host, settings, ToServer(self.link))
        self.source.model_loaded(self._loaded.model)
        return self._loaded.max_sessions

    async def serve(self) -> None:
        ending = await ModelLoop(self._loaded).until_ended()
        failure = None if ending.cause is None else ipc_messages.Failure.of(ending.cause)
        self.link.send(ipc_messages.RunLoopEnded(ending.what, failure))

    async def _run(self, stand_in: _SessionStandIn) -> None:
        try:
            error = await stand_in.run()
        finally:
            del self.sessions[stand_in.id]
        if error is not None and ipc_messages.ends_process(error):
            self.link.send(ipc_messages.ModelBroken(ipc_messages.Failure.of(error)))
            self.nursery.cancel_scope.cancel()  # the end of this process ends all its sessions
            return
        failure = None if error is None else ipc_messages.Failure.of(error)
        self.link.send(ipc_messages.SessionUnwound(stand_in.id, failure, stand_in.model_session.what_is_left()))


class _SessionStandIn:
    """Stands in for a session and its playout, which are in the server's process: it makes each call an IPC message."""

    def __init__(self, session: str, worker: _Worker, model_session: LocalModelSession, declaration: Declaration) -> None:
        self.id = session
        self.model_session = model_session
        self._frames = worker.frames
        self._send = worker.link.send
        self._declaration = declaration
        self._over = trio.CancelScope()
        self._reports = InputReports()
        model_session.connect(self, self)

    async def run(self) -> BaseException | None:
        """Run the session to its end; return what author code raised."""
        try:
            with self._over:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.model_session.watch, self._late)
                    await self.model_session.run()
                    nursery.cancel_scope.cancel()
        finally:
            self.model_session.mailbox.deliver()
            self.model_session.close()
        return self.model_session.raised

    def _late(self, what: str, since: float) -> None:
        self._send(ipc_messages.LateCall(self.id, what, since))

    def take_input(self, message: ipc_messages.InputFrameArrived, frame: npt.NDArray[Any]) -> None:
        """Hand over a frame of an input track; a copy, since the author may change it."""
        self.model_session.take_input(
            message.track, InputFrame(frame.copy(), message.pts, message.metadata, message.capture_time_us)
        )
        if taken := self._reports.took(message.track, frame.nbytes):
            self._frames.return_unused()
            self._send(ipc_messages.InputFramesTaken(self.id, message.track, taken))

    def receive(self, message: Any) -> None:
        """Process any other message about this session."""
        match message:
            case ipc_messages.EndSession():
                self._over.cancel()
            case ipc_messages.LogStack():
                log.error("session %s: it is here:\n%s", self.id, self.model_session.stack())
            case ipc_messages.CommandArrived(_, command):
                self.model_session.command(self._decoded(command))
            case ipc_messages.SetPaused(_, paused):
                self.model_session.pause(paused)
            case ipc_messages.SetFpsLimit(_, fps):
                self.model_session.limit(fps)
            case ipc_messages.BundleShown(_, until, epoch, wake):
                self.model_session.handed(until, epoch, wake=wake)
            case ipc_messages.ShownUntil(_, until):
                self.model_session.shown(until)

    def _decoded(self, command: Command) -> Command:
        if command.name == FILE_UPLOADED:
            hook = self._declaration.file_uploaded
            assert hook is not None
            assert hook.file_parameter is not None
            arguments: dict[str, Any] = {hook.file_parameter: next(iter(command.files.values()))}
        elif command.name in TRANSPORT:
            arguments = transport_arguments(command.name, command.data)
        else:
            arguments = self._declaration.decode(command.name, command.data, command.files.__getitem__)[1]
        return msgspec.structs.replace(command, arguments=arguments)

    # ---- as the session -----------------------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        """See `SessionEvents`."""
        packed = msgspec.structs.replace(answer, reply=msgspec.json.encode(answer.reply))
        self._send(ipc_messages.ModelAnswered(self.id, packed))

    def state_changed(self, values: dict[str, bytes]) -> None:
        """See `SessionEvents`."""
        self._send(ipc_messages.StateValuesChanged(self.id, values))

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """See `SessionEvents`."""
        self._send(ipc_messages.ModelMessageSent(self.id, type, msgspec.json.encode(data), client))

    # ---- as the playout -----------------------------------------------------------------------------------------------

    def put(self, bundle: Bundle) -> None:
        """See `PlayoutSide`."""
        planes = {name: self._frames.show(to_host(frame)) for name, frame in bundle.tracks.items()}
        self._frames.return_unused()
        self._send(ipc_messages.PutBundle(
            self.id, planes, dict(bundle.seqs), bundle.duration, bundle.paced, bundle.origin, bundle.made, bundle.epoch,
            bundle.ready,
        ))  # fmt: skip

    def flush(self, epoch: int) -> None:
        """See `PlayoutSide`."""
        self._send(ipc_messages.FlushPlayout(self.id, epoch))

    def retime(self, interval: float) -> None:
        """See `PlayoutSide`."""
        self._send(ipc_messages.RetimePlayout(self.id, interval))

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """See `PlayoutSide`."""
        self._send(ipc_messages.FramesDropped(self.id, place, reason, frames))
