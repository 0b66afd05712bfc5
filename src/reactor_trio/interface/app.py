"""`ReactorApp`: a model in three methods. `process_input` decides on a step, `generate` makes it, `process_output` shows it.

Authors' tests call these methods by hand on an instance that is not served, under any async framework. Therefore `output`
(`interface/output_stream.py`) and `connected` work there too, and both may be assigned.
"""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from reactor_trio.errors import ReactorError
from reactor_trio.interface.declaration import ModelKind
from reactor_trio.interface.model import ConnectedEvent, ReactorModel
from reactor_trio.interface.state import InputState
from reactor_trio.interface.steps import StepCompleted, StepOutcome
from reactor_trio.interface.tracks import Output

__all__ = ["InputState", "ReactorApp", "StepCompleted", "StepOutcome"]

#: attribute for the `connected` of an instance that is not served
_OWN_CONNECTED: Final = "_reactor_connected"


class _ConnectedAttribute:
    """`app.connected`. On an instance that is not served it is an `asyncio.Event`, as in Reactor 3.x."""

    def __get__(self, model: ReactorApp | None, _owner: type) -> Any:
        if model is None:
            return self
        if model._reactor_binding is not None:
            return model._reactor_binding.connected
        import asyncio  # noqa: TID251 - for code that may run on it

        return vars(model).setdefault(_OWN_CONNECTED, asyncio.Event())


class ReactorApp(ReactorModel):
    """A model in three methods, which the runtime calls for each step.

    The annotation `state: MyState` names the state class. The runtime assigns a new `MyState` to `self.state` at the begin
    of a session, and None at its end. `self.state` is a plain attribute: the app may assign another object.

    A step runs while a client is connected and no command is pending. Commands and hooks run between two steps, never
    inside one, not even at an `await` of `process_input` or `process_output`. A step that has begun when its client leaves
    is finished before `@disconnected` runs; its frames and messages reach no other session.

    An exception of `process_input` (other than ApplicationError) or of `process_output` ends the session. A class that
    defines `run()` has a loop of its own instead: commands, hooks and state stay, the three methods are not called.

    Class attributes, beside those of every model:
        fps: also read after `load`, so `load` may assign it.

    Source: Reactor 3.10's step API.
    """

    __reactor_kind__: ClassVar[ModelKind] = "app"
    __reactor_app__: ClassVar[bool] = True

    if TYPE_CHECKING:
        state: Any

        @property
        def connected(self) -> ConnectedEvent: ...  # noqa: D102 - as in `ReactorModel`
    else:
        state = None
        connected = _ConnectedAttribute()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if cls.run is not ReactorApp.run:
            cls.__reactor_kind__ = "run_loop"
        super().__init_subclass__(**kwargs)

    def load(self, config_path: Path | None) -> None:  # type: ignore[override]
        """Load weights and set up. Called once, before a client can connect. An exception ends the server, exit code 1.

        Args:
            config_path: the absolute path of the configuration that the manifest names; None without one. A `load` whose
                parameter has another name and is not annotated `Path` gets the configuration as a dict.
        """

    async def process_input(self) -> Any:
        """Decide whether a step may happen, and return its input. By default the state. Raise ApplicationError to refuse."""
        return self.state

    def generate(self, input: Any, /) -> Any:  # noqa: A002 - Reactor's name
        """Make one step from what `process_input` returned. A plain method, which may block. The app defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no generate()")

    async def process_output(self, outcome: StepOutcome, /) -> Output | StepCompleted | None:
        """Turn the result of `generate` into media, or recover from its error. Return None for a step without media.

        By default it returns an `Output` as it is and raises the error of the step.
        """
        return outcome.to_output()

    async def run(self) -> None:
        """Define it only for a loop of your own. The runtime itself makes the steps of an app. Raises ReactorError."""
        raise ReactorError("ReactorApp.run() cannot be called: an app that defines run() makes its steps itself")

    def emit(
        self, output: object, *, compute_time: float | None = None, drop: bool = False
    ) -> Coroutine[Any, Any, None]:
        """Queue frames now, before the step's own; see `ReactorModel.emit`. The same as `self.output.emit`."""
        stream: Coroutine[Any, Any, None] = self.output.emit(output, compute_time=compute_time, drop=drop)
        return stream

    async def complete_step(self, step: StepCompleted) -> None:
        """Report a finished unit of work of a hand-written `run()`. Always a checkpoint when served.

        Nothing is shown: `run()` emits its media itself. Raises TypeError unless it is a StepCompleted.
        """
        if not isinstance(step, StepCompleted):
            raise TypeError(f"complete_step() takes a StepCompleted, not {type(step).__name__}")
        if self._reactor_binding is not None:
            await trio.lowlevel.checkpoint()
