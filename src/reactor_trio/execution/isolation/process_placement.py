"""The server's side of a model in a process of its own: start the process, load the model, watch it, end it.

The end of the socket shows that the process has died. If the model loop answers no `Ping` for `step_timeout` seconds, the
process hangs, in a step or because model code holds the interpreter, and is killed. Time in which this process itself was
stopped does not count (`time_limit`). In each case the sessions end, and the next `load` starts another process.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.model_process import ModelProcess, OpenProcess, forward_log
from reactor_trio.execution.isolation.process_link import IpcLink
from reactor_trio.execution.isolation.remote_failure import error_of
from reactor_trio.execution.isolation.remote_session import RemoteModelSession
from reactor_trio.execution.isolation.shared_frames import FrameExchange
from reactor_trio.execution.isolation.time_limit import within
from reactor_trio.execution.model_checks import check_model
from reactor_trio.execution.placement import Check, Ending, Placed, not_loaded
from reactor_trio.interface.model import Model
from reactor_trio.telemetry import Telemetry

#: pings in `step_timeout` seconds
_PINGS = 4


@dataclass(eq=False)
class ProcessPlacement:
    """See `Placement`; its tasks run in `nursery`.

    Args:
        open_process: starts a process, or as many as the model has ranks.
        find_model: returns the model class, for its declaration; called in a worker thread.
        path: the model as `module:Class`; None: the place where the class is defined.
        weights: the folder that the manifest names.
        in_thread: calls a function in a worker thread.
    """

    nursery: trio.Nursery
    open_process: OpenProcess
    name: str
    find_model: Callable[[], type[Model]]
    find_moderation: Callable[[], Check | None]
    path: str | None = None
    weights: Path | None = None
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = trio.to_thread.run_sync
    _served: _ServedProcess = field(init=False)
    running = 0

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """See `Placement`."""
        model_class, moderate = await self.in_thread(lambda: (self.find_model(), self.find_moderation()))
        try:
            checked = check_model(model_class, settings)
            path = self.path or _importable(model_class)
        except DeclarationError as error:
            raise not_loaded(self.name, type(error).__name__, str(error)) from error
        process = await self.open_process(checked.ranks)
        self._served = served = _ServedProcess(process, telemetry)
        await self.nursery.start(served.run)
        bare = msgspec.structs.replace(settings, auth=None, tls=None)  # the model must not see secrets
        given = process.pack((config, bare, self.weights))
        max_sessions = await served.load(ipc_messages.LoadModel(path, list(sys.path), given), self.name)
        if settings.step_timeout:
            self.nursery.start_soon(served.watch, settings.step_timeout)
        return Placed(checked.declaration, served.open_model_session, max_sessions, None, moderate)

    async def begin(self) -> None:
        """See `Placement`."""
        await self._served.turn()

    async def until_ended(self) -> Ending:
        """See `Placement`."""
        return await self._served.until_ended()

    def killed(self, error: BaseException) -> None:
        """See `Placement`: model code can only end its own process, and `until_ended` reports that."""

    @property
    def process(self) -> ModelProcess:
        """The process of the newest load."""
        return self._served.process


class _ServedProcess:
    """One process, from its start to its end."""

    def __init__(self, process: ModelProcess, telemetry: Telemetry) -> None:
        self.process = process
        self._link: IpcLink = process.link
        self._telemetry = telemetry
        self._frames = FrameExchange(self._link.send)
        self._model_sessions: dict[str, RemoteModelSession] = {}
        self._load_result: ipc_messages.ModelLoaded | ipc_messages.LoadFailed | None = None
        self._ponged = 0
        self._hung = ""
        self._broken: Ending | None = None
        self._ending: Ending | None = None
        self._gone = False
        #: one of the fields above has changed
        self._changed = RepeatedEvent()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Task: receive messages until the process is gone. If this task is cancelled, it ends the process."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.run)
            task_status.started()
            try:
                await self._link.receive(self._receive)
            finally:
                self._link.send(ipc_messages.StopModelProcess())
                with trio.CancelScope(shield=True):
                    await self.process.end()
                self._over()
            nursery.cancel_scope.cancel()

    async def load(self, load: ipc_messages.LoadModel, name: str) -> int:
        """Load the model; return how many sessions it serves at the same time."""
        self._link.send(load)
        await self._until(lambda: self._load_result is not None)
        match self._load_result:
            case None:
                raise ModelFailed(f"{name}: its process {self.process.exit()} while the model was loaded")
            case ipc_messages.LoadFailed(failure):
                self.process.kill()  # frees what it has loaded before another process tries
                await self._until_gone()
                raise not_loaded(name, failure.kind, failure.text) from error_of(failure)
            case ipc_messages.ModelLoaded(max_sessions):
                return max_sessions

    def open_model_session(self, session_id: str, client: tuple[int, float]) -> RemoteModelSession:
        """See `Placed`."""
        model_session = RemoteModelSession(
            session_id, client, self._link.send, self._frames, lambda: self._model_sessions.pop(session_id, None)
        )
        if self._gone:
            model_session.lost()
        else:
            self._model_sessions[session_id] = model_session
        return model_session

    async def turn(self) -> None:
        """Return when the model loop has answered a ping, or the process is gone."""
        await self._until_pong(self._ping())

    async def watch(self, timeout: float) -> None:
        """Task: kill the process if its model loop answers no ping for `timeout` seconds."""
        while not self._gone:
            if not await within(timeout, partial(self._until_pong, self._ping())):
                whose = self.process.silent()
                self._hung = f"{whose}computed for more than {timeout:g} s in one step (runtime.step_timeout)"
                self.process.kill()
                await self._until_gone()
            with trio.move_on_after(timeout / _PINGS):
                await self._until_gone()

    async def until_ended(self) -> Ending:
        """Return why the model is gone, when it is."""
        await self._until(lambda: self._ending is not None)
        assert self._ending is not None
        return self._ending

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _ping(self) -> int:
        number = self._ponged + 1
        self._link.send(ipc_messages.Ping(number))
        return number

    async def _until_pong(self, number: int) -> None:
        await self._until(lambda: self._ponged >= number)

    async def _until_gone(self) -> None:
        await self._until(lambda: False)

    async def _until(self, done: Callable[[], bool]) -> None:
        """Return when `done()` is true, or the process is gone."""
        while not (self._gone or done()):
            await self._changed.wait()

    def _receive(self, message: Any, descriptor: int | None) -> None:
        match message:
            case ipc_messages.FrameSegment() | ipc_messages.SegmentFreed() | ipc_messages.FramesReturned():
                self._frames.receive(message, descriptor)
            case ipc_messages.Pong(number):
                self._ponged = number
                self._changed.set()
            case ipc_messages.ModelLoaded() | ipc_messages.LoadFailed():
                self._load_result = message
                self._changed.set()
            case ipc_messages.RunLoopEnded(what, failure):
                self._ending = Ending(what, None if failure is None else error_of(failure))
                self._changed.set()
            case ipc_messages.ModelBroken(failure):
                what = f"its code raised {failure.kind}: {failure.text}"
                self._broken = Ending(what, error_of(failure), restarts=True)
            case ipc_messages.LogLine():
                forward_log(message)
            case ipc_messages.FramesDropped(None, place, reason, frames):
                self._telemetry.dropped(place, reason, frames)
            case _:
                if (model_session := self._model_sessions.get(message.session)) is not None:
                    model_session.receive(message)

    def _over(self) -> None:
        self._gone = True
        exited = Ending(f"its process {self._hung or self.process.exit()}", restarts=True)
        self._ending = self._ending or self._broken or exited
        self._changed.set()
        for model_session in list(self._model_sessions.values()):
            model_session.lost()
        self._link.close()
        self._frames.close()


def _importable(model_class: type[Model]) -> str:
    """Return `module:Class`. Raises ManifestError if another process cannot import it."""
    path = f"{model_class.__module__}:{model_class.__qualname__}"
    if model_class.__module__ == "__main__" or "<locals>" in path:
        raise ManifestError(
            f"runtime.isolation: process: {path} cannot be imported by another process; put the class into a module"
        )
    return path
