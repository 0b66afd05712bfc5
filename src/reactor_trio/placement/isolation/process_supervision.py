"""The server's side of a model in a process of its own: start the process, load the model, watch it, end it.

If the model loop answers no `Ping` for `step_timeout` seconds, the process hangs, in a step or because model code holds the
interpreter, and is killed. Until the model has made its first frame since the load it has `first_step_timeout` seconds for
each answer, because that frame's step, or a hook or a handler before it, may compile. Time in which this process itself was
stopped does not count (`answered_within`). In each case the sessions end, and the next load starts another process.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import note_place, place_of
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.messages import BeginSession
from reactor_trio.crossing.socket_link import IpcLink, answered_within
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.manifest_files import ManifestFiles
from reactor_trio.interface.model import Model
from reactor_trio.kinds.model_checks import CheckedModel
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.log_lines import set_levels
from reactor_trio.placement.isolation.model_process import ModelProcess, OpenProcess, forward_log
from reactor_trio.placement.isolation.remote_session_run import RemoteSessionRun
from reactor_trio.placement.isolation.shared_frames import SERVER, FrameExchange
from reactor_trio.placement.model_run import ModelEnding
from reactor_trio.placement.placement import Check, not_loaded
from reactor_trio.plain_text import sendable
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.model")

#: pings in the time of the shorter limit
_PINGS = 4

#: what its author can do about a model that was killed for its time, by the setting that limits the time
_ADVICE = {
    "first_step_timeout":
        "A first step that compiles belongs into load(), as warm_up() of reactor_trio.adapters makes it; or raise "
        "runtime.first_step_timeout (0: no limit)",
    "step_timeout":
        "If the step compiled for a new shape, make a step of each shape in load(), with warm_up() of "
        "reactor_trio.adapters; or raise runtime.step_timeout (0: no limit)",
}  # fmt: skip


class ProcessPlacement:
    """A `Placement` whose model runs in `process`, from the start of that to its end."""

    model: Model | None = None
    running = 0

    def __init__(
        self, process: ModelProcess, declaration: Declaration, moderate: Check | None, telemetry: Telemetry,
        input_bytes: int, processes: int = 1,
    ) -> None:  # fmt: skip
        self.process = process
        self.processes = processes
        self.declaration = declaration
        self.moderate = moderate
        self.max_sessions, self._weights = 0, ""
        self._input_bytes = input_bytes
        self._link: IpcLink = process.link
        self._telemetry = telemetry
        self._frames = FrameExchange(process.memory, SERVER, self._link.send)
        self._link.wire.share(self._frames)
        self._runs: dict[int, RemoteSessionRun] = {}
        self._numbers = itertools.count(1)
        self._load_result: ipc_messages.ModelLoaded | ipc_messages.LoadFailed | None = None
        self._ponged = 0
        self._stepped = False
        self._broken: ModelEnding | None = None
        self._ending: ModelEnding | None = None
        self._gone = False
        #: one of the fields above has changed
        self._changed = RepeatedEvent()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Task: receive messages until the process is gone. If this task is cancelled, it ends the process."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.run)
            task_status.started()
            try:
                await self.process.receive(self._receive)
            finally:
                self._link.send(ipc_messages.StopModelProcess())
                with trio.CancelScope(shield=True):
                    await self.process.end(_forward_log_lines)
                self._over()
            nursery.cancel_scope.cancel()

    async def load(self, load: ipc_messages.LoadModel, name: str) -> None:
        """Load the model."""
        self._link.send(load)
        await self._until(lambda: self._load_result is not None)
        match self._load_result:
            case None:
                raise ModelFailed(f"{name}: its process {self.process.exit()} while the model was loaded")
            case ipc_messages.LoadFailed(failure):
                await self.give_up()
                cause = failure.error()
                failed = not_loaded(name, failure.kind, failure.text)
                note_place(failed, place_of(cause))
                raise failed from cause
            case ipc_messages.ModelLoaded():
                self.max_sessions, self._weights = self._load_result.max_sessions, self._load_result.weights

    def weights(self) -> str:
        """What the process has said of them."""
        return self._weights

    async def give_up(self) -> None:
        """End the process, whose model is not loaded: it frees what it has loaded before another process tries."""
        self.process.kill()
        await self._until_gone()

    def open_session_run(self, session_id: str, client: tuple[int, float]) -> RemoteSessionRun:
        """Make the run of a session; its process may be gone already."""
        number = next(self._numbers)
        run = RemoteSessionRun(
            BeginSession(session_id, *client), partial(self._link.send, session=number), self._input_bytes,
            self._telemetry, lambda: self._runs.pop(number, None),
        )  # fmt: skip
        if self._gone:
            run.lost()
        else:
            self._runs[number] = run
        return run

    async def begin(self) -> None:
        """Return when the model loop has answered a ping."""
        await self._until_pong(self._ping())

    async def kill_if_hung(self, step_timeout: float, first_step_timeout: float) -> None:
        """Task: kill the process if its model loop answers no ping for so many seconds; 0: however long it takes."""
        pause = min(limit for limit in (step_timeout, first_step_timeout) if limit) / _PINGS
        while not self._gone:
            stepped = self._stepped
            seconds, where = (step_timeout, "one step") if stepped else (first_step_timeout, "its first step since the load")
            if not await answered_within(seconds or math.inf, partial(self._until_pong, self._ping(), stepped)):
                what = f"its process {self.process.silent()}computed for more than {seconds:g} s in {where}"
                setting = "step_timeout" if stepped else "first_step_timeout"
                self._broken = self._broken or too_late(f"{what} (runtime.{setting})", setting)
                self.process.kill()
                await self._until_gone()
            with trio.move_on_after(pause):
                await self._until_gone()

    async def until_ended(self) -> ModelEnding:
        """Return when the process, or its `run()`, has ended."""
        await self._until(lambda: self._ending is not None)
        assert self._ending is not None
        return self._ending

    def killed(self, error: BaseException) -> None:
        """Do nothing: model code can only end its own process, and `until_ended` reports that."""

    def idle(self) -> None:
        """Have the process free unused memory."""
        self._link.send(ipc_messages.FreeMemory())

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _ping(self) -> int:
        number = self._ponged + 1
        self._link.send(ipc_messages.Ping(number))
        return number

    async def _until_pong(self, number: int, stepped: bool = True) -> None:
        """Return when the ping of this number is answered, or when the model has made its first frame if not `stepped`."""
        await self._until(lambda: self._ponged >= number or self._stepped > stepped)

    async def _until_gone(self) -> None:
        await self._until(lambda: False)

    async def _until(self, done: Callable[[], bool]) -> None:
        """Return when `done()` is true, or the process is gone."""
        while not (self._gone or done()):
            await self._changed.wait()

    def _receive(self, message: Any, session: int) -> None:
        if session:
            if (run := self._runs.get(session)) is not None:
                run.channel.deliver(message)
            return
        match message:
            case ipc_messages.FramesReturned(numbers):
                self._frames.returned(numbers)
            case ipc_messages.LoadReported(fraction, text):
                self._telemetry.loading(fraction, text)
            case ipc_messages.LogLine():
                forward_log(message)
            case ipc_messages.FramesDropped(place, reason, frames):
                self._telemetry.dropped(place, reason, frames)
            case _:
                self._note(message)
                self._changed.set()

    def _note(self, message: Any) -> None:
        """Note what a message says of the process as a whole."""
        match message:
            case ipc_messages.Pong(number):
                self._ponged = number
            case ipc_messages.ModelLoaded() | ipc_messages.LoadFailed():
                self._load_result = message
            case ipc_messages.RunLoopEnded(what, failure):
                self._ending = ModelEnding(what, None if failure is None else failure.error())
            case ipc_messages.ModelBroken(failure):
                what = f"its code raised {failure.kind}: {failure.text}"
                self._broken = ModelEnding(what, failure.error(), restarts=True)
            case ipc_messages.ModelStuck(what, setting):
                self._broken = self._broken or too_late(what, setting)
            case ipc_messages.FirstStepMade():
                self._stepped = True
                self._telemetry.stepped()

    def _over(self) -> None:
        self._gone = True
        if words := self.process.last_words():
            log.error("the model's process died of this:\n%s", words)
        exited = ModelEnding(f"its process {self.process.exit()}", restarts=True)
        self._ending = self._ending or self._broken or exited
        self._changed.set()
        for run in list(self._runs.values()):
            run.lost()
        self._link.close()
        self._frames.close()


async def load_in_process(
    nursery: trio.Nursery,
    open_process: OpenProcess,
    name: str,
    checked: CheckedModel,
    moderate: Check | None,
    path: str | None,
    files: ManifestFiles,
    config: dict[str, Any],
    settings: Settings,
    telemetry: Telemetry,
) -> ProcessPlacement:
    """Load the model in a process; see `LoadPlacement`.

    Args:
        nursery: runs the tasks that watch the process.
        open_process: starts so many processes, which then are one to the server.
        checked: the model's class as this process knows it.
        moderate: checks the text in commands.
        path: the model as `module:Class`; None: the module that defines the class.
        files: those that the manifest names.
    """
    path = path or _importable(checked.declaration.model)
    try:
        process = await open_process(checked.processes)
    except OSError as error:
        raise ModelFailed(f"{name}: its process cannot be started: {error.strerror}") from error
    input_bytes = settings.limits.input_bytes
    placement = ProcessPlacement(process, checked.declaration, moderate, telemetry, input_bytes, checked.processes)
    await nursery.start(placement.run)
    worlds = msgspec.structs.replace(settings.worlds, keys=())
    bare = msgspec.structs.replace(settings, auth=None, tls=None, worlds=worlds)  # the model must not see secrets
    try:
        given = process.pack((config, bare, files))
    except Exception as error:
        await placement.give_up()
        raise ManifestError(
            f"{name}: its config cannot be sent to another process, {type(error).__name__}: {sendable(error)}. Leave such a "
            "value out, or run the model in this process (without runtime.isolation)"
        ) from error
    schema_hash = checked.schema["schema_hash"]
    await placement.load(ipc_messages.LoadModel(path, schema_hash, list(sys.path), given, set_levels()), name)
    if settings.step_timeout or settings.first_step_timeout:
        nursery.start_soon(placement.kill_if_hung, settings.step_timeout, settings.first_step_timeout)
    return placement


def _forward_log_lines(message: Any, _session: int) -> None:
    """Take what a process that ends has still to say; its other messages have no receiver any more."""
    if isinstance(message, ipc_messages.LogLine):
        forward_log(message)


def too_late(what: str, setting: str) -> ModelEnding:
    """The end of a model that has exceeded the time limit `setting`; empty: its end has another reason."""
    first = setting == "first_step_timeout"
    return ModelEnding(what, restarts=True, advice=_ADVICE.get(setting, ""), in_first_step=first)


def _importable(model_class: type[Model]) -> str:
    """Return `module:Class`. Raises ManifestError if another process cannot import it."""
    module = model_class.__module__
    if module == "__main__":
        module = _module_of_program() or module
    path = f"{module}:{model_class.__qualname__}"
    if module == "__main__" or "<locals>" in path:
        raise ManifestError(
            f"runtime.isolation: process: {path} cannot be imported by another process; put the class into a module"
        )
    return path


def _module_of_program() -> str | None:
    """Return the name by which another process imports this program's own module, None in a notebook or a shell.

    `python model.py` has the file's folder in `sys.path`, so it is `model`; for `python -m package.model` it is that name.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name
    file = getattr(main, "__file__", None)
    return None if file is None else Path(file).stem
