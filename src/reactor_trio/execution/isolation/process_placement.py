"""The server's side of a model in a process of its own: start it, load the model, watch it, end it.

A process that dies is noticed by the end of its socket. One whose model loop answers no `Ping` for `step_timeout` seconds
hangs, be it in a step or because model code holds the interpreter; it is killed, unless it was this process that stood still
(`patience`). Either way the sessions end, and the next `load` starts another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.model_process import ModelProcess, OpenProcess, forward_log
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.isolation.remote_failure import error_of
from reactor_trio.execution.isolation.remote_session import RemoteModelSession
from reactor_trio.execution.isolation.shared_frames import FrameExchange
from reactor_trio.execution.isolation.time_limit import within
from reactor_trio.execution.model_checks import check_model
from reactor_trio.execution.placement import Check, Ending, Placed, not_loaded
from reactor_trio.interface.model import Model
from reactor_trio.telemetry import Telemetry

#: pings in the time after which a process counts as hung
_PINGS = 4


class ProcessPlacement:
    """See `Placement`; its tasks run in `nursery`.

    Args:
        open_process: starts a process, or as many as the model has ranks.
        find_model: gives the model class, for what it declares; called in a worker thread.
        path: the model as `module:Class`; None: as the class says of itself.
        weights: the folder that the manifest names.
        in_thread: calls a function in a worker thread.
    """

    running = 0

    def __init__(
        self,
        nursery: trio.Nursery,
        open_process: OpenProcess,
        name: str,
        find_model: Callable[[], type[Model]],
        find_moderation: Callable[[], Check | None],
        path: str | None = None,
        weights: Path | None = None,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = trio.to_thread.run_sync,
    ) -> None:
        self._nursery = nursery
        self._open_process = open_process
        self._name = name
        self._find_model = find_model
        self._find_moderation = find_moderation
        self._path = path
        self._weights = weights
        self._in_thread = in_thread
        self._served: _Served | None = None

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """See `Placement`."""
        model_class, moderate = await self._in_thread(self._find)
        try:
            checked = check_model(model_class, settings)
            path = self._path or _importable(model_class)
        except DeclarationError as error:
            raise not_loaded(self._name, type(error).__name__, str(error)) from error
        process = await self._open_process(checked.ranks)
        self._served = served = _Served(process, telemetry)
        await self._nursery.start(served.run)
        bare = msgspec.structs.replace(settings, auth=None, tls=None)  # secrets are not the model's business
        load = ipc_messages.Load(path, process.path, process.pack((config, bare, self._weights)))
        max_sessions = await served.load(load, self._name)
        if settings.step_timeout:
            self._nursery.start_soon(served.watch, settings.step_timeout)
        return Placed(checked.declaration, served.open_model_session, max_sessions, None, moderate)

    async def begin(self) -> None:
        """See `Placement`."""
        assert self._served is not None
        await self._served.turn()

    async def until_ended(self) -> Ending:
        """See `Placement`."""
        assert self._served is not None
        return await self._served.until_ended()

    def killed(self, error: BaseException) -> None:
        """Such an end is that of the process."""

    @property
    def process(self) -> ModelProcess | None:
        """The one that there is now."""
        return None if self._served is None else self._served.process

    def _find(self) -> tuple[type[Model], Check | None]:
        return self._find_model(), self._find_moderation()


class _Served:
    """One process, from its start to its end."""

    def __init__(self, process: ModelProcess, telemetry: Telemetry) -> None:
        self.process = process
        self._link: Link = process.link
        self._telemetry = telemetry
        self._frames = FrameExchange(self._link.send)
        self._model_sessions: dict[str, RemoteModelSession] = {}
        self._answer: ipc_messages.Loaded | ipc_messages.NotLoaded | None = None
        self._answered, self._finished, self._gone = trio.Event(), trio.Event(), trio.Event()
        self._run_ended: ipc_messages.RunEnded | None = None
        self._broken: ipc_messages.Failure | None = None
        self._hung = ""
        self._ponged = 0
        self._pong = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Task: hear what it says until it is gone, and see that it is; cancelled, let it end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.run)
            task_status.started()
            try:
                await self._link.hear(self._hear)
            finally:
                self._link.send(ipc_messages.Stop())
                with trio.CancelScope(shield=True):
                    await self.process.end()
                self._over()
            nursery.cancel_scope.cancel()

    async def load(self, load: ipc_messages.Load, name: str) -> int:
        """How many sessions the model serves at the same time."""
        self._link.send(load)
        await self._answered.wait()
        match self._answer:
            case None:
                raise ModelFailed(f"{name}: its process {self.process.exit()} while the model was loaded")
            case ipc_messages.NotLoaded(failure):
                self.process.kill()  # what it has loaded all the same is not held while another is tried
                await self._gone.wait()
                raise not_loaded(name, failure.kind, failure.text) from error_of(failure)
            case ipc_messages.Loaded(max_sessions):
                return max_sessions

    def open_model_session(self, session_id: str, client: tuple[int, float]) -> RemoteModelSession:
        """See `Placed`."""
        model_session = RemoteModelSession(session_id, client, self._link.send, self._frames, self._forget)
        if self._gone.is_set():
            model_session.lost()
        else:
            self._model_sessions[session_id] = model_session
        return model_session

    async def turn(self) -> None:
        """Return when the model's loop has answered, or is gone."""
        await self._until_pong(self._ping())

    async def watch(self, timeout: float) -> None:
        """Task: kill the process when its model loop does not turn for `timeout` seconds."""
        while not self._gone.is_set():
            if not await within(timeout, partial(self._until_pong, self._ping())):
                whose = self.process.silent()
                self._hung = f"{whose}computed for more than {timeout:g} s in one step (runtime.step_timeout)"
                self.process.kill()
                await self._gone.wait()
            with trio.move_on_after(timeout / _PINGS):
                await self._gone.wait()

    async def until_ended(self) -> Ending:
        await self._finished.wait()
        if self._run_ended is not None:
            failure = self._run_ended.failure
            return Ending(self._run_ended.what, None if failure is None else error_of(failure))
        if self._broken is not None:
            error = error_of(self._broken)
            return Ending(f"its code raised {self._broken.kind}: {self._broken.text}", error, restarts=True)
        return Ending(f"its process {self._hung or self.process.exit()}", restarts=True)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _ping(self) -> int:
        number = self._ponged + 1
        self._link.send(ipc_messages.Ping(number))
        return number

    async def _until_pong(self, number: int) -> None:
        while self._ponged < number and not self._gone.is_set():
            await self._pong.wait()

    def _hear(self, word: Any, descriptor: int | None) -> None:
        match word:
            case ipc_messages.Segment() | ipc_messages.Gone() | ipc_messages.Returned():
                self._frames.hear(word, descriptor)
            case ipc_messages.Pong(number):
                self._ponged = number
                self._pong.set()
                self._pong = trio.Event()
            case ipc_messages.Loaded() | ipc_messages.NotLoaded():
                self._answer = word
                self._answered.set()
            case ipc_messages.RunEnded():
                self._run_ended = word
                self._finished.set()
            case ipc_messages.Broken(failure):
                self._broken = failure
            case ipc_messages.Logged():
                forward_log(word)
            case ipc_messages.Dropped(None, place, reason, frames):
                self._telemetry.dropped(place, reason, frames)
            case _:
                if (model_session := self._model_sessions.get(word.session)) is not None:
                    model_session.hear(word)

    def _over(self) -> None:
        self._gone.set()
        self._finished.set()
        self._answered.set()
        self._pong.set()
        for model_session in list(self._model_sessions.values()):
            model_session.lost()
        self._link.close()
        self._frames.close()

    def _forget(self, session_id: str) -> None:
        self._model_sessions.pop(session_id, None)


def _importable(model_class: type[Model]) -> str:
    """`module:Class`. Raises ManifestError if another process could not import it."""
    path = f"{model_class.__module__}:{model_class.__qualname__}"
    if model_class.__module__ == "__main__" or "<locals>" in path:
        raise ManifestError(
            f"runtime.isolation: process: {path} cannot be imported by another process; put the class into a module"
        )
    return path
