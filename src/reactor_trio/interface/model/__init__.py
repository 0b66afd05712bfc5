"""`ReactorModel` and `ReactorPipeline`, the base classes of an author's model, and `Model`, the base of every served class.

A model reaches its session through one object on the instance, the session binding, never through a module global. A shallow
copy of a model with a session binding of its own is therefore a model for another session that shares the weights.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, final, runtime_checkable

import trio

from reactor_trio.errors import ReactorError
from reactor_trio.interface.author_code import AWAITS, awaited_call
from reactor_trio.interface.declaration import Declaration, ModelKind, declaration_of, declare
from reactor_trio.interface.later_names import names_from
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.output_stream import OutputAttribute
from reactor_trio.interface.tracks import Input


class MissingState(ReactorError, AttributeError):
    """A model asks for its state and declares none."""


class ConnectedEvent(Protocol):
    """An event that is set while a client is connected. The runtime sets it before `@connected`, clears it before
    `@disconnected`.
    """

    def is_set(self) -> bool:
        """Whether a client is connected: False from the moment it leaves, also in the middle of a step."""

    async def wait(self) -> None:
        """Wait until a client is connected. Always a checkpoint."""


@runtime_checkable
class OutputBuffer(Protocol):
    """The queue between the model and its viewers."""

    @property
    def fps(self) -> float:
        """The current playout rate in frames per second."""

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate at once, until the next call; in a pipeline also only until the session ends.

        Raises ValueError unless `fps` is a finite number above 0.
        """

    def flush(self) -> None:
        """Drop the queued frames and show one black frame."""

    def clear(self) -> None:
        """Drop the queued frames. The last picture stays on the screen."""


class ModelBinding(Protocol):
    """The session binding: the object that the runtime puts on a model instance to connect it with a session.

    Each member implements the member of the same name of `ReactorModel` or `ReactorPipeline`.
    """

    @property
    def connected(self) -> ConnectedEvent:
        """An event that is set while a client is connected."""

    @property
    def output_buffer(self) -> OutputBuffer:
        """The queue to the viewers."""

    @property
    def state(self) -> Any:
        """The session's state, None without a session."""

    def set_state(self, state: Any) -> None:
        """Replace the state of the running session."""

    @property
    def inputs(self) -> Mapping[str, Input]:
        """Attribute -> an instance of the model's `Input` class with an `InputBuffer` in each field."""

    @property
    def chosen_fps(self) -> float | None:
        """The rate of `set_fps`, which is part of the world; None: the declared one holds."""

    def choose_fps(self, fps: float | None) -> None:
        """Set the rate as `set_fps` does; None: have the declared one hold again."""

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Queue frames."""

    async def send(self, message: ModelMessage) -> None:
        """Send a message to every client of the session."""

    def cancelled(self) -> bool:
        """Whether the session is over."""

    def check_cancelled(self) -> None:
        """Raise the runtime's exception for the session's end if the session is over."""


@final
class IdleType:
    """The type of `Idle`. Authors may write `Idle` or `Idle()`."""

    def __call__(self) -> IdleType:
        """Return the same object."""
        return self

    def __repr__(self) -> str:
        return "Idle"

    def __reduce__(self) -> str:
        return "Idle"


#: `yield Idle`: no frame this time. The runtime waits for the next command or input frame, at most 20 ms, and steps again.
Idle: Final = IdleType()


class Model:
    """Base class of every model, whatever its kind.

    Class attributes:
        fps: declared frames per second, 30 by default; an upper limit of the playout rate.
        buffer_size: frames queued between model and viewers, 4 by default; never less than one batch.
        max_fps: upper limit of the rate, also for `set_fps`; 60 by default.
        max_sessions: sessions at the same time, 1 by default. With more, each gets a shallow copy of the loaded model.
        transport: what the controlling client may do: some of `"pause"`, `"step"` and `"restart"`, or `()` for nothing. None
            (the default): all that a model of this kind can do. An `inference()` can do all three, `batch_inference()` and
            an app cannot restart, and a model with a loop of its own can do none of them.
    """

    fps: float = 30
    buffer_size: int = 4
    max_fps: float = 60
    max_sessions: int = 1
    transport: Sequence[str] | None = None

    __reactor_declaration__: ClassVar[Declaration]
    __reactor_kind__: ClassVar[ModelKind]
    #: whether it is a `ReactorApp`
    __reactor_app__: ClassVar[bool] = False
    _reactor_binding: ModelBinding | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("reactor_trio.interface."):
            declare(cls)

    def _port(self) -> ModelBinding:
        port = self._reactor_binding
        if port is None:
            raise ReactorError(f"{type(self).__name__} is not served: the runtime or the test kit must load it first")
        return port


#: attribute for the state of a pipeline that has no session
_OWN_STATE: Final = "_reactor_state"


class ReactorModel(Model):
    """A model with a loop of its own. The runtime calls `load(config)` once, then `run()` for the server's life.

    Class attributes, beside those of every model:
        output: annotate it with an `Output` class to limit the model's tracks to those of this class.
        input: annotate it, or an attribute of any name, with an `Input` class to receive the tracks of this class.

    Source: Reactor's documentation of `run()`.
    """

    __reactor_kind__: ClassVar[ModelKind] = "run_loop"

    if TYPE_CHECKING:
        output: Any  # an `OutputStream`; the author's annotation of it names the model's tracks
    else:
        output = OutputAttribute()

    def load(self, config: dict[str, Any]) -> None:
        """Load weights and set up. Called once, before a client can connect. An exception ends the server, exit code 1."""

    async def run(self) -> None:
        """Run the model's own loop. Called once after `load`; it must not return. The default waits for ever."""
        await trio.sleep_forever()

    @property
    def connected(self) -> ConnectedEvent:
        """An event that is set while a client is connected; wait for it in `run()`."""
        return self._port().connected

    @property
    def output_buffer(self) -> OutputBuffer:
        """The queue between the model and its viewers."""
        return self._port().output_buffer

    def emit(
        self, output: object, *, compute_time: float | None = None, drop: bool = False
    ) -> Coroutine[Any, Any, None]:
        """Queue a frame or a batch for the session that this code serves; await the result. Waits while the queue is full.

        Args:
            output: an `Output` of the model, or a bare `uint8` array if the model has one video track.
            compute_time: seconds that the model took to make it; adapts the rate. Without it the declared `fps` holds.
            drop: whether to discard frames that find no room instead of waiting.

        Without a session it discards the frame and waits one frame interval. Raises OutputError if `output` does not fit the
        declared tracks, or if `compute_time` is not a time; the message ends with the author's file and line. Always a
        checkpoint. If it is cancelled while it waits, the rest of the batch is not queued.
        """
        if not sys._getframe(1).f_code.co_flags & AWAITS:  # a run loop, which awaits, makes this call for each frame
            return awaited_call("self.emit(output)", "nothing is shown", self._port().emit, output, compute_time, drop)
        return self._port().emit(output, compute_time, drop)

    def send(self, message: ModelMessage) -> Coroutine[Any, Any, None]:
        """Send a message to every client of the session; await the result. Does nothing without a session.

        The message arrives before any frame that is yielded or emitted after it. Raises TypeError if it is not a
        ModelMessage or has no JSON form, and ReactorError at once in a plain generator, which cannot await. Always a
        checkpoint, except on an instance that is not served.
        """
        return awaited_call("self.send(message)", "nothing is sent", self._reactor_send, message)

    async def _reactor_send(self, message: ModelMessage) -> None:
        if self._reactor_binding is None:
            message_data(message)  # raises for a wrong message; without a runtime there may be no Trio for a checkpoint
        else:
            await self._reactor_binding.send(message)

    def cancelled(self) -> bool:
        """Whether the session that this code serves is over. Poll it in a long step to stop early. Thread-safe.

        It is False on an instance that is not served, so that a test or a benchmark can step it by hand.
        """
        return self._reactor_binding is not None and self._reactor_binding.cancelled()

    def check_cancelled(self) -> None:
        """Raise if the session is over, to stop a long step at once. `except Exception` does not catch the exception."""
        if self._reactor_binding is not None:
            self._reactor_binding.check_cancelled()


class ReactorPipeline(ReactorModel):
    """A model as a generator: `inference()` reads `self.state` and yields frames.

    The annotation `state: MyState` names the state class. Author code may assign `self.state`; in a session this replaces
    the session's state. An instance that is not served has its own state, with the defaults unless one is assigned, so that
    `next(model.inference())` works in a test or a benchmark without a runtime.

    `inference()` is a sync or async generator. The runtime makes it after `@connected`, closes it when the client leaves,
    and makes a new one when it returns. It applies commands only between two yields.

    A model that can step several sessions in one call defines `batch_inference(self, sessions)` instead, a plain or async
    method. Its argument is a list of models, one for each session that is due; each is a copy of this model with its own
    `state`. It returns a list with one output for each, in the same order. An output is anything that `inference()` may
    yield, or an Exception instance, which ends only that session. An exception that the method raises ends all of these
    sessions. The runtime cancels an async method when all of their clients have left.

    Source: Reactor's documentation of `inference()`, of converting a pipeline, and its quickstart.
    """

    __reactor_kind__: ClassVar[ModelKind] = "generator"

    if not TYPE_CHECKING:

        @property
        def state(self):  # noqa: D102 - the author's annotation declares it
            declared = declaration_of(type(self)).state
            if declared is not None and self._reactor_binding is not None:
                state = self._reactor_binding.state
                return vars(self).get(_OWN_STATE) if state is None else state
            if _OWN_STATE not in vars(self):
                if declared is None:
                    raise MissingState(
                        f"{type(self).__name__} has no state: annotate it in the class, `state: MyState`, with a subclass "
                        "of InputState",
                        anchor="state",
                    )
                vars(self)[_OWN_STATE] = declared()
            return vars(self)[_OWN_STATE]

        @state.setter
        def state(self, state):
            if (
                declaration_of(type(self)).state is None
                or self._reactor_binding is None
                or self._reactor_binding.state is None
            ):
                vars(self)[_OWN_STATE] = state
            else:
                self._reactor_binding.set_state(state)

        def inference(self):  # noqa: D102 - the author declares it
            raise NotImplementedError(f"{type(self).__name__} has no inference()")


if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {
        "CommandSpec": "interface.model.contract.ContractCommand", "ContractError": "errors.CommandError",
        "LifecycleHooks": "interface.model.contract.ContractHooks",
        "ModelContract": "interface.model.contract.ModelContract", "ModelSchema": "interface.model.contract.ModelContract",
        "TrackSchema": "interface.model.contract.ContractTrack",
    })  # fmt: skip
