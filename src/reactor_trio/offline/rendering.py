"""`Rendering`: hands every bundle of a model to a program, once and in order, as fast as the program takes them.

    render -+- model host
            '- nursery -+- Rendering.watch   of a model with a loop of its own
                        '- Rendering.run -> host.run(SessionTasks.run)

At most `ROOM` bundles, or those of one more step, wait to be taken; then the model waits.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.local_channel import open_local_channel
from reactor_trio.crossing.message_flow import MessageReports
from reactor_trio.crossing.messages import (
    Answer,
    FlushPlayout,
    ModelMessageSent,
    RetimePlayout,
    Rewound,
    StateValuesChanged,
)
from reactor_trio.errors import BufferClosed, ModelFailed, ReactorError
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.media import Bundle, to_host
from reactor_trio.offline.film_room import ROOM, FilmCadence, FilmRoom
from reactor_trio.offline.script import ScriptCommand, ScriptError
from reactor_trio.offline.script_queue import ScriptQueue, StillIdle
from reactor_trio.offline.unpaced_time import UnpacedTime
from reactor_trio.placement.loading import LoadedModel
from reactor_trio.placement.model_run import ModelRun

log = logging.getLogger("reactor_trio.headless")


class RenderedBundle(msgspec.Struct, frozen=True):
    """One instant of the model's output.

    Attributes:
        step: number of the step that made it, from 0.
        t: when it begins in the film, in seconds.
        duration: in seconds.
        tracks: track -> a picture `(H, W, 3)` uint8 or a block of sound `(1, M)` int16, read-only, in host memory.
        seqs: track -> number of its frame, from 0.
        command: id of the newest command that its step saw, None without an id.
        seconds: compute time of its step, 0 if it is not known.
    """

    step: int
    t: float
    duration: float
    tracks: Mapping[str, npt.NDArray[Any]]
    seqs: Mapping[str, int]
    command: int | None
    seconds: float


class Rendering:
    """The bundles of a running model, for `async for`. `render` makes it.

    The iteration ends when all requested bundles are taken, when the model has ended, or after `stop`. After the last bundle
    made before, it raises ModelFailed if model code raised (`__cause__` is that exception), ScriptError if the model refused
    a command of the script, or ReactorError if the model waits for something that will not come. If it is cancelled, it has
    taken nothing.
    """

    def __init__(
        self,
        host: ModelHost,
        time: UnpacedTime,
        room: FilmRoom,
        loaded: LoadedModel,
        name: str,
        commands: list[ScriptCommand],
        on_message: Callable[[str, Any], object] | None,
    ) -> None:
        #: the model instance; its code may run on another thread
        self.model = loaded.model
        self._loaded = loaded
        self.declaration = loaded.declaration
        self.name = name
        #: reason -> number of frames that the model dropped itself
        self.dropped: Counter[str] = Counter()
        #: what in the files of its script may make a difference; one line each
        self.warnings: list[str] = []
        #: number of commands of the script that were applied
        self.applied = 0
        self._host = host
        self._commands = commands
        self._on_message = on_message
        self._queue: deque[tuple[Bundle, float] | ReactorError] = deque()
        self._wakeup = RepeatedEvent()
        self._scope = trio.CancelScope()
        self._taken = 0
        self._enough = self._stopped = False
        self._over = trio.Event()
        self._error: BaseException | None = None
        self._room = room
        self._time = time
        room.reached = partial(host.post_io, self._reached)
        instance = loaded.instances.take()
        fixed = fixed_rate(type(loaded.model)) or instance.binding.declared_fps
        self._channel, model_end = open_local_channel(host.post_io, host.post)
        self._reports = MessageReports(self._channel)
        self._channel.connect({
            Bundle: self._put, Answer: self._answered, ModelMessageSent: self._told,
            # The bundles stay in the film when the model flushes its output, and a new rate holds for the next bundles.
            FlushPlayout: _ignore, RetimePlayout: _ignore, StateValuesChanged: _ignore, Rewound: _ignore,
        })  # fmt: skip
        queue = ScriptQueue(commands, room, computed=loaded.kind.driving.driver.steps_ahead)
        self._tasks = loaded.make_tasks(
            "rendering", (1, trio.current_time()), instance, channel=model_end, commands=queue,
            cadence=FilmCadence(fixed, loaded.max_fps), room=room, dropped=partial(host.post_io, self._count_drop),
        )  # fmt: skip
        self._session = self._tasks.session
        time.begin(self._session, queue, room)

    def __aiter__(self) -> Rendering:
        return self

    async def __anext__(self) -> RenderedBundle:
        """Wait for the next bundle and take it. Always a checkpoint."""
        for bundle in await self.batch(1):
            return bundle
        raise StopAsyncIteration

    async def batch(self, most: int = ROOM) -> list[RenderedBundle]:
        """Take all bundles that are made, up to `most`, after waiting for one. Empty at the end. Always a checkpoint.

        Raises what the iteration raises.
        """
        await trio.lowlevel.checkpoint()
        while not self._queue and not self._enough:
            await self._wakeup.wait()
        taken: list[tuple[Bundle, float]] = []
        for item in list(self._queue)[:most]:
            if isinstance(item, ReactorError) or self._stopped or self._room.is_enough(self._taken + len(taken), item[1]):
                break
            taken.append(item)
        if not taken:
            if self._queue and isinstance(error := self._queue[0], ReactorError):
                self.stop()
                raise error
            await self._finish()
            return []
        rendered = await self._on_host(taken)
        for bundle, t in taken:
            self._queue.popleft()
            self._taken += 1
            self._enough |= self._room.is_enough(self._taken, t + bundle.duration)
            self._host.post(self._time.taken)
        return rendered

    @property
    def commands_left(self) -> int:
        """The number of commands of the script that were not applied."""
        return len(self._commands) - self.applied

    def stop(self) -> None:
        """End the session; the iteration returns no further bundle. May be called again."""
        self._stopped = True
        self._end()
        self._reached()

    # ---- messages of the model's side ---------------------------------------------------------------------------------

    def _put(self, bundle: Bundle) -> None:
        """Queue a bundle."""
        self._queue.append((bundle, self._room.begins.popleft()))
        self._wakeup.set()

    def _count_drop(self, place: str, reason: str, frames: int) -> None:
        """Count frames that the model dropped."""
        self.dropped[reason] += frames

    def _answered(self, answer: Answer) -> None:
        """Count an applied command. A refused command ends the rendering."""
        for number in answer.numbers:
            self.applied += answer.code is None
            if answer.code is not None:
                self._queue.append(_refusal(self._commands[number - 1], answer.code, answer.message))
                self._wakeup.set()

    def _told(self, message: ModelMessageSent) -> None:
        """Pass a message of the model on."""
        self._reports.took(len(message.data))
        if self._on_message is not None:
            self._on_message(message.type, msgspec.json.decode(message.data))

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _on_host(self, taken: list[tuple[Bundle, float]]) -> list[RenderedBundle]:
        if all(isinstance(frame, np.ndarray) for bundle, _ in taken for frame in bundle.tracks.values()):
            return _rendered(taken)
        return await trio.to_thread.run_sync(_rendered, taken)

    def _reached(self) -> None:
        """Wait for no further bundle."""
        self._enough = True
        self._wakeup.set()

    async def _finish(self) -> None:
        """End the session and wait for its end. Raises what ended it."""
        self.stop()
        await self._over.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _end(self) -> None:
        self._host.post(self._time.release)
        self._scope.cancel()

    async def run(self) -> None:
        """Task: run the session, from its first to its last line of author code."""
        error: BaseException | None = None
        try:
            with self._scope:
                error = await self._host.run(self._tasks.run)
        finally:
            error = error or self._session.failures.error
            if error is not None:
                self._error = self._error or self._failure(error)
            self._over.set()
            self._reached()

    def _failure(self, error: BaseException) -> ReactorError:
        if isinstance(error, StillIdle):
            return error
        hook = self._session.failures.failed_hook
        what = f"{hook or f'step {self._session.step}'} raised {type(error).__name__}: {error}"
        inputs = [track.name for track in self.declaration.tracks if track.direction == "in"]
        if isinstance(error, BufferClosed) and inputs:
            what = f"the model reads its input track {', '.join(inputs)}, and here is no client that sends it anything"
        return self._model_failed(what, error)

    def _model_failed(self, what: str, cause: BaseException | None) -> ModelFailed:
        failure = ModelFailed(f"{self.name}: {what}")
        failure.__cause__ = cause
        return failure

    async def watch(self) -> None:
        """Task: run what goes on for the model's life, if it has such code. Its end ends the rendering."""
        ending = await ModelRun(self._loaded).until_ended()
        self._error = self._error or self._model_failed(ending.what, ending.cause)
        self._end()


def _ignore(_message: object) -> None:
    """Take a message that means nothing to a film."""


def _refusal(entry: ScriptCommand, code: str, message: str) -> ReactorError:
    if code == "internal_error":
        return ModelFailed(f"{entry.where}: the handler of {entry.name} raised {message}")
    return ScriptError(f"{entry.where}: {entry.name} was refused ({code}): {message}")


def _rendered(taken: list[tuple[Bundle, float]]) -> list[RenderedBundle]:
    """Copy frames from devices to the host, which may block."""
    return [
        RenderedBundle(
            bundle.origin.step, t, bundle.duration, {name: to_host(frame) for name, frame in bundle.tracks.items()},
            bundle.seqs, bundle.origin.command, bundle.origin.seconds,
        )
        for bundle, t in taken
    ]  # fmt: skip
