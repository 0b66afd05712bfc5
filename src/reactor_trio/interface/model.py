"""`ReactorModel` and `ReactorPipeline`: what an author subclasses; and `Model`, which all that is served has in common.

Everything that belongs to a session is reached through one port on the instance, never through a module global. A
shallow copy of a model with a port of its own is therefore a model for another session, which shares the weights.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, final, runtime_checkable

import trio

from reactor_trio.errors import ReactorError
from reactor_trio.interface.author_code import refuse_in_plain_step
from reactor_trio.interface.declaration import Declaration, ModelKind, declaration_of, declare
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.tracks import Input


class Connected(Protocol):
    """Whether a client is there: set before `@connected` runs, cleared before `@disconnected`. The runtime manages it."""

    def is_set(self) -> bool:
        """True while a client is connected; False at once when it has left, also in the middle of a step."""
        ...

    async def wait(self) -> None:
        """Return when a client is connected; always a checkpoint."""
        ...


@runtime_checkable
class OutputBuffer(Protocol):
    """The queue between the model and its viewers."""

    @property
    def fps(self) -> float:
        """Frames per second at which frames are played now."""
        ...

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate at once; raises ValueError unless `fps` is a finite number above 0.

        It holds until the next call (of a pipeline: until the session ends).
        """
        ...

    def flush(self) -> None:
        """Drop what is queued and show one black frame."""
        ...

    def clear(self) -> None:
        """Drop what is queued; the last picture stays."""
        ...


class ModelBinding(Protocol):
    """What the runtime puts on a model instance; each member answers for the one of the same name."""

    @property
    def connected(self) -> Connected:
        """Whether a client is there."""
        ...

    @property
    def output_buffer(self) -> OutputBuffer:
        """The queue to the viewers."""
        ...

    @property
    def state(self) -> Any:
        """The session's state, None without a session."""
        ...

    def set_state(self, state: Any) -> None:
        """Give the session, which there is, another state."""
        ...

    @property
    def inputs(self) -> Mapping[str, Input]:
        """By attribute: the model's `Input` classes with a buffer in each field."""
        ...

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Queue frames."""
        ...

    async def send(self, message: ModelMessage) -> None:
        """Send a message."""
        ...

    def cancelled(self) -> bool:
        """Whether the session is over."""
        ...

    def check_cancelled(self) -> None:
        """Leave if it is."""
        ...


@final
class IdleType:
    """The value of `Idle`, which may be written with or without parentheses."""

    def __call__(self) -> IdleType:
        """Itself."""
        return self

    def __repr__(self) -> str:
        return "Idle"

    def __reduce__(self) -> str:
        return "Idle"


#: `yield Idle`: no frame this time. The runtime waits for the next command or input frame, at most 20 ms, and asks again.
Idle: Final = IdleType()


class Model:
    """What the runtime knows of every model, of whatever generation.

    Class attributes:
        fps: frames per second declared; caps the rate. 30 if the class says nothing.
        buffer_size: frames queued between model and viewers, 4 by default; never less than one batch.
        max_fps: limit of the rate, 60 by default.
        max_sessions: sessions at the same time, 1 by default. With more each gets a shallow copy of the loaded model.
    """

    fps: float = 30
    buffer_size: int = 4
    max_fps: float = 60
    max_sessions: int = 1

    __reactor_declaration__: ClassVar[Declaration]
    __reactor_kind__: ClassVar[ModelKind]
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


#: where a pipeline keeps a state that is no session's
_OWN_STATE: Final = "_reactor_state"


class ReactorModel(Model):
    """A model with a loop of its own: `load(config)` once, then `run()` for the server's life.

    Class attributes, beside those of every model:
        output: annotate it with an `Output` class to narrow the model's tracks to that one.
        input: annotate it, or an attribute of any name, with an `Input` class to receive that one's tracks.

    Source: Reactor's documentation, `advanced/run-loop`.
    """

    __reactor_kind__: ClassVar[ModelKind] = "run_loop"

    def load(self, config: dict[str, Any]) -> None:
        """Load weights and set up; called once, before a client can connect. Raising ends the server, exit code 1."""

    async def run(self) -> None:
        """The model's own loop, called once after `load`. It must not return. The default waits for ever."""
        await trio.sleep_forever()

    @property
    def connected(self) -> Connected:
        """Whether a client is there; wait for it in `run()`."""
        return self._port().connected

    @property
    def output_buffer(self) -> OutputBuffer:
        """The queue between the model and its viewers."""
        return self._port().output_buffer

    def emit(
        self, output: object, *, compute_time: float | None = None, drop: bool = False
    ) -> Coroutine[Any, Any, None]:
        """Await it: queue a frame or a batch for the session that this code serves; waits while the queue is full.

        Args:
            output: an `Output` of the model, or a bare `uint8` array if it has one video track.
            compute_time: seconds that the model took for it; adapts the rate. Without it the declared `fps` holds.
            drop: discard what finds no room instead of waiting.

        With no session the frame is discarded and one interval is waited. Raises OutputError if `output` does not fit
        the declared tracks, or `compute_time` is no such number; the message ends with the author's file and line. Always a
        checkpoint; cancelled while waiting, the rest of the batch is not queued.
        """
        refuse_in_plain_step("self.emit(output)")
        return self._port().emit(output, compute_time, drop)

    def send(self, message: ModelMessage) -> Coroutine[Any, Any, None]:
        """Await it: send a message to every client of the session; nothing happens without one.

        It arrives before a frame that is yielded or emitted after it. Raises TypeError if it is no ModelMessage or
        cannot be JSON, ReactorError at once in a plain generator, which cannot await it. Always a checkpoint, except on an
        instance that is not served.
        """
        refuse_in_plain_step("self.send(message)")
        return self._reactor_send(message)

    async def _reactor_send(self, message: ModelMessage) -> None:
        if self._reactor_binding is None:
            message_data(message)  # no runtime, so maybe no Trio either
        else:
            await self._reactor_binding.send(message)

    def cancelled(self) -> bool:
        """Whether the session that this code works for is over: poll it in a long step to leave early, from any thread.

        False on an instance that is not served, so that a test or a benchmark can step it by hand.
        """
        return self._reactor_binding is not None and self._reactor_binding.cancelled()

    def check_cancelled(self) -> None:
        """Leave a long step at once if its session is over, by an exception that `except Exception` lets pass."""
        if self._reactor_binding is not None:
            self._reactor_binding.check_cancelled()


class ReactorPipeline(ReactorModel):
    """A model as a generator: `inference()` reads `self.state` and yields frames; the runtime does the rest.

    `state: MyState` names the state class. `self.state` may be assigned: in a session it is that session's from then on. An
    instance that is not served has a state of its own, with its defaults unless one is assigned, so that
    `next(model.inference())` works in a test or a benchmark without a runtime.

    `inference()` is a sync or async generator: made after `@connected`, closed when the client leaves, made anew when it
    returns. Commands are applied only between two yields.

    A model that can step several sessions in one call defines `batch_inference(self, sessions)` instead, a plain or async
    method. It is called with the models of those sessions that are due, each a copy of this one with its own `state`, and
    returns a list with one output for each, in the same order: what `inference()` may yield, or an Exception instance,
    which ends that session alone. What it raises ends all of them. An async one is cancelled when all have left.

    Source: Reactor's documentation, `tutorial/inference`, `tutorial/bring-your-model` and `tutorial/model-anatomy`.
    """

    __reactor_kind__: ClassVar[ModelKind] = "pipeline"

    if not TYPE_CHECKING:

        @property
        def state(self):  # noqa: D102 - declared by the author's annotation
            declared = declaration_of(type(self)).state
            if declared is not None and self._reactor_binding is not None:
                state = self._reactor_binding.state
                return vars(self).get(_OWN_STATE) if state is None else state
            if _OWN_STATE not in vars(self):
                if declared is None:
                    raise AttributeError(
                        f"{type(self).__name__} has no state: annotate it in the class, `state: MyState`, with a subclass "
                        "of InputState"
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

        def inference(self):  # noqa: D102 - declared by the author
            raise NotImplementedError(f"{type(self).__name__} has no inference()")
