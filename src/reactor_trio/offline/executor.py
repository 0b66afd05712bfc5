"""`PipelineExecutor`: steps a pipeline one yield at a time by plain calls, without server, socket, pacing or test framework.

    with PipelineExecutor(MyModel, {"width": 64}) as executor:
        executor.connect()
        executor.send_event("set_brightness", brightness=0.5)
        result = next(executor)

Author code runs on a Trio loop of its own in one thread, as under the server, while the caller waits (`_ModelLoop`).
Its session binding is a stand-in (`executor_binding.py`). An author may hold a nursery open across a yield; therefore the
executor keeps no cancel scope open around a step.
"""

from __future__ import annotations

import json
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import outcome
import trio

from reactor_trio.concurrency import SessionOver, author_error, hide_trio_from_nested_loops, strip
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import BufferClosed, CommandError, ProtocolError
from reactor_trio.execution.performer import Performer, perform_each
from reactor_trio.execution.step_loop import StepSource
from reactor_trio.interface.app import ReactorApp
from reactor_trio.interface.author_code import NamesLocation
from reactor_trio.interface.declaration import CommandSpec, declaration_of
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.messages import ClientInfo, ModelMessage
from reactor_trio.interface.model import Idle, ReactorPipeline
from reactor_trio.interface.steps import StepOutcome
from reactor_trio.interface.tracks import Output, TrackSpec
from reactor_trio.kinds.kind import Kind
from reactor_trio.kinds.model_checks import check_model, fps_before_load
from reactor_trio.kinds.table import kind_of
from reactor_trio.lifecycle import Action, Event, SessionLife, State
from reactor_trio.media import chunk_from_output
from reactor_trio.offline.executor_binding import ExecutorBinding
from reactor_trio.pacing.cadence import checked_fps
from reactor_trio.protocol import decode_client_text

T = TypeVar("T")


@dataclass(frozen=True)
class StepResult:
    """The result of one yield, or of one step of an app.

    Attributes:
        output: the `Output` (the executor puts a bare frame into one), or `Idle` if there was no frame.
        compute_time: seconds from resuming the generator to its yield, or of the app's step; 0 for `Idle`.
        messages: the messages that the model sent meanwhile, in order, to all clients or to one.
        outcome: what `generate` of an app came to; None for a pipeline, and for a refused step.
        refused: the text of the ApplicationError that refused the step of an app, or None.
    """

    output: Any
    compute_time: float
    messages: list[ModelMessage]
    outcome: StepOutcome | None = None
    refused: str | None = None


class PipelineExecutor:
    """Steps a pipeline or an app without server or clock. Iterating over it returns a `StepResult` for each yield or step.

    Args:
        cls: the model class.
        config: the argument of `load`; `{}` if left out.

    The constructor checks the class as a server does, makes the model and loads it; it raises what `load` raises. Every call
    blocks until author code has returned, and raises what author code raises. Awaited sleeps take real time. Only one thread
    may use an executor at a time.
    """

    _clock: trio.abc.Clock | None = None  # of its loop

    def __init__(self, cls: type[ReactorPipeline] | type[ReactorApp], config: Mapping[str, Any] | None = None) -> None:
        self._declaration = declaration_of(cls)
        kind = kind_of(self._declaration)
        self._open_source, self._load_model = self._steps_of(kind), kind.loading.load
        check_model(cls, Settings(ranks=1))  # it steps a model of several ranks as one
        self._loop = _ModelLoop(self._clock)
        self._finish = weakref.finalize(self, self._loop.stop)
        self._client: ClientInfo | None = None
        self._clients = 0
        #: the result of the last event's handler
        self.reply: Any = None
        try:
            self.model: Any = self._loop.call(self._load, cls, dict(config or {}))
        except BaseException:
            self._finish()
            raise

    @property
    def state(self) -> Any:
        """The session's state, None while no client is connected."""
        return None if self._client is None else self._performer.keeper.state

    def connect(self) -> list[ModelMessage]:
        """Begin a session: make a new state, call `@session_started`, set `connected`, call `@connected`.

        Returns the messages sent meanwhile. Raises RuntimeError if a session runs already.
        """
        if self._client is not None:
            raise RuntimeError("connect(): a client is connected already; disconnect() it first")
        return self._loop.call(self._connect)

    def send_event(self, name: str, /, **arguments: Any) -> list[ModelMessage]:
        """Carry out one command, with the checks of a client's command. Returns the messages sent meanwhile.

        Raises ValueError for an unknown command or a value that breaks a rule (also NaN), TypeError for an unknown or a
        missing argument, RuntimeError if no client is connected, and what the handler raises.
        """
        self._require_client("send_event")
        spec, decoded = self._checked(name, arguments)
        return self._loop.call(self._apply, spec, decoded)

    def push_media(
        self, track: str, frame: npt.NDArray[Any], *, pts: float | None = None, metadata: bytes | None = None,
        capture_time_us: int | None = None,
    ) -> None:
        """Put a copy of `frame` into an input track, as if the client had sent it.

        A frame is a picture `(H, W, 3)` uint8, or sound `(1, M)` int16. `pts`, `metadata` and `capture_time_us` are those of
        `InputFrame`; `pts` is by default the time since `connect()`. Raises ValueError for an unknown track, TypeError for
        any other frame, RuntimeError if no client is connected.
        """
        self._require_client("push_media")
        specs = {spec.name: spec for spec in self._declaration.tracks if spec.direction == "in"}
        if track not in specs:
            raise ValueError(f"unknown input track {track!r}; this model has: {', '.join(specs) or 'none'}")
        self._loop.call(self._push, track, _media(specs[track], frame), pts, metadata or None, capture_time_us)

    def __iter__(self) -> PipelineExecutor:
        return self

    def __next__(self) -> StepResult:
        """Resume the generator up to its next yield. Raises StopIteration while no client is connected.

        A generator that returns gives one `Idle`, and the next call begins a new one. If `inference()` raises, so does this
        call, and the next one begins a new generator.
        """
        if self._client is None:
            raise StopIteration
        return self._loop.call(self._step)

    def disconnect(self) -> list[ModelMessage]:
        """End the session: clear `connected`, call the hooks of the end, close the generator, drop the state.

        Returns the messages sent meanwhile. Raises, after all that, what the hook or the generator's cleanup raises.
        RuntimeError if no client is connected.
        """
        self._require_client("disconnect")
        return self._loop.call(self._disconnect)

    def close(self) -> None:
        """Disconnect a connected client and end the loop. A second call does nothing."""
        try:
            if self._client is not None and self._finish.alive:
                self.disconnect()
        finally:
            self._finish()

    def __enter__(self) -> PipelineExecutor:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # ---- on the caller's thread ---------------------------------------------------------------------------------------

    def _require_client(self, call: str) -> ClientInfo:
        if self._client is None:
            raise RuntimeError(f"{call}(): nobody is connected; call connect() first")
        return self._client

    def _checked(self, name: str, arguments: dict[str, Any]) -> tuple[CommandSpec, dict[str, Any]]:
        commands = self._declaration.commands
        if (spec := commands.get(name)) is None:
            raise ValueError(f"unknown event {name!r}; this model takes: {', '.join(sorted(commands)) or 'none'}")
        parameters = spec.arguments.parameters
        known = [parameter.name for parameter in parameters]
        for argument in arguments:
            if argument not in known:
                raise TypeError(f"{name}: unknown argument {argument!r}; it takes: {', '.join(known) or 'none'}")
        missing = [parameter.name for parameter in parameters if parameter.required and parameter.name not in arguments]
        if missing:
            raise TypeError(f"{name}: missing argument {missing[0]!r}; there is no reset by leaving it out")
        try:
            text = json.dumps({"type": name, "data": msgspec.to_builtins(arguments, str_keys=True)})
            return spec, spec.arguments.decode(bytes(decode_client_text(text).data))
        except (CommandError, ProtocolError) as error:
            raise ValueError(f"{name}: {error}") from None

    # ---- on the model's thread ----------------------------------------------------------------------------------------

    def _steps_of(self, kind: Kind) -> Callable[[None], StepSource]:
        return kind.steps_by_hand(self._declaration.model.__qualname__)

    async def _load(self, cls: Any, config: dict[str, Any]) -> Any:
        model = cls()
        self._binding = model._reactor_binding = ExecutorBinding(self._declaration, fps_before_load(model))
        await self._load_model(model, config)
        self._binding.loaded(checked_fps(model.fps))
        return model

    async def _connect(self) -> list[ModelMessage]:
        self._clients += 1
        self._client = ClientInfo(self._clients, trio.current_time(), self._send_to)
        self._performer = Performer(self.model, self._declaration, self._client, self._binding, self._binding)
        self._performer.driver = self._source = self._open_source(None)
        self._binding.begin()
        self._life = SessionLife(whole_steps=self._source.whole_steps)
        for event in (Event.BEGUN, Event.MADE, Event.STARTED, Event.GREETED):
            for action in self._life.event(event):
                await self._performer.perform(action)
        return self._taken()

    async def _push(self, track: str, data: npt.NDArray[Any], pts: float | None, *stated: Any) -> None:
        pts = trio.current_time() - self._require_client("push_media").joined_at if pts is None else pts
        self._binding.buffers[track].put(InputFrame(data, pts, *stated))

    async def _apply(self, spec: CommandSpec, arguments: dict[str, Any]) -> list[ModelMessage]:
        if spec.handler is not None:
            self.reply = await self._performer.call(spec.handler, arguments)
        elif spec.field is not None:
            self.reply = None
            setattr(self.state, spec.field, arguments[spec.field])
        return self._taken()

    async def _step(self) -> StepResult:
        began = trio.current_time()
        try:
            made = await self._source.resume(self.model)
        except BaseException:
            self._performer.driver = self._source = self._open_source(None)
            raise
        seconds = trio.current_time() - began
        value = made.output
        if value is None or value is Idle:
            return StepResult(Idle, 0.0, self._taken(), made.outcome, made.refused)
        outputs = self._declaration.outputs
        with NamesLocation(lambda: self._source.location(self.model)):
            chunk_from_output(value, outputs)  # raises the same errors as under the server
        if not isinstance(value, Output):
            value = outputs[0](**{outputs[0].__reactor_tracks__[0].name: value})
        return StepResult(value, seconds, self._taken(), made.outcome, made.refused)

    async def _disconnect(self) -> list[ModelMessage]:
        events = [Event.UNWOUND, Event.ENDED]
        if self._life.state >= State.GREETING:
            events = [Event.LEFT, Event.DRIVER_ENDED, *events]
        try:
            await perform_each([action for event in events for action in self._life.event(event)], self._perform_at_end)
        finally:
            self._client = None
        return self._taken()

    async def _perform_at_end(self, action: Action) -> None:
        try:
            await self._performer.perform(action)
        except BaseException as error:
            # A nursery held open across a yield wraps even GeneratorExit in a group.
            over = strip(error, GeneratorExit, SessionOver, BufferClosed, trio.Cancelled) is None
            if not (over and action is Action.CLOSE_DRIVER):
                raise

    async def _send_to(self, client: int, message: ModelMessage) -> None:
        await self._binding.send(message)

    def _taken(self) -> list[ModelMessage]:
        taken, self._binding.sent = self._binding.sent, []
        return taken


class _ModelLoop:
    """A Trio loop in a thread, on which author code runs, one call after the other.

    The caller blocks meanwhile, so that there is never more than one call. One task runs all of them: an author may hold a
    nursery open across a yield, and the task that enters a nursery must leave it.
    """

    def __init__(self, clock: trio.abc.Clock | None) -> None:
        self._started = threading.Event()
        self._thread = threading.Thread(None, trio.run, "reactor-model", (self._main,), {"clock": clock}, daemon=True)
        self._thread.start()
        self._started.wait()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)` on the loop; block until it returns or raises."""
        if not self._thread.is_alive():
            raise RuntimeError("the executor is closed")
        results: queue.SimpleQueue[outcome.Maybe[T]] = queue.SimpleQueue()
        self._token.run_sync_soon(self._calls.send_nowait, (function, args, results))
        try:
            return results.get().unwrap()
        except Exception as error:
            told = author_error(error)
            if told is error:
                raise
            raise told from error

    def stop(self) -> None:
        """End the loop after the call in progress, and join its thread."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._calls.close)
            self._thread.join()

    async def _main(self) -> None:
        hide_trio_from_nested_loops()
        self._token = trio.lowlevel.current_trio_token()
        self._calls, calls = trio.open_memory_channel[Any](1)
        self._started.set()
        while True:
            # Shielded: a nursery that author code holds open across a yield may cancel what this task awaits.
            with trio.CancelScope(shield=True):
                try:
                    function, args, results = await calls.receive()
                except trio.EndOfChannel:
                    return
            results.put(await outcome.acapture(function, *args))
            del function, args, results


def _media(spec: TrackSpec, frame: object) -> npt.NDArray[Any]:
    shape: tuple[int, ...] = frame.shape if isinstance(frame, np.ndarray) else ()
    if spec.kind == "video":
        fits, expected = len(shape) == 3 and shape[-1] == 3 and 0 not in shape, "uint8 (H, W, 3)"
    else:
        fits, expected = len(shape) == 2 and shape[0] == 1 and 0 not in shape, "int16 (1, M)"
    if not isinstance(frame, np.ndarray) or not fits or frame.dtype != expected.partition(" ")[0]:
        given = f"{frame.dtype} {shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise TypeError(f"track {spec.name}: expected {expected}, got {given}")
    return frame.copy()
