"""`Kind`: what the rest of the runtime asks about a kind of model, and the parts of which a row of `KINDS` consists."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from reactor_trio.concurrency import ClockHooks, ModelHost
from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.errors import DeclarationError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.step_loop import StepLoop, StepSource
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface.model import Model, ReactorModel
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher
from reactor_trio.pacing import Cadence


def nothing_wrong(_name: str, _model: Any) -> None:
    """Accept a model whose declaration says all that could be wrong."""


async def make_model(model_class: type[Model], _config: dict[str, Any], _host: ModelHost) -> Model:
    """Make a model whose `load` gets the configuration."""
    return model_class()


async def call_load(model: ReactorModel, config: dict[str, Any]) -> None:
    """Call the model's `load`, plain or async, with its configuration or the path of that."""
    loaded: Awaitable[None] | None = model.load(load_argument(model.load, config))  # type: ignore[func-returns-value]
    if inspect.isawaitable(loaded):
        await TracedAwaitable(loaded)


def cadence_of(_model: Model, declared_fps: float | None, max_fps: float) -> Cadence:
    """Make the cadence of a model each of whose steps is timed."""
    return Cadence(declared_fps, max_fps)


class Driving(msgspec.Struct, frozen=True):
    """What moves the author's code: the steps that the runtime makes, or the code itself.

    Attributes:
        source: opens the steps of a session; None (the argument): of a program that makes them by hand. None (this
            attribute): the author's code goes on by itself.
        turns: makes what grants the turns of the model's sessions and steps these together; None: each is stepped alone.
        driver: the class of the drivers of author code that goes on by itself.
        run: author code that goes on for the model's life, also between its sessions; None if the model has no such code.
    """

    source: Callable[[DrivenSession | None], StepSource] | None = None
    turns: Callable[[ClockHooks, Model], DynamicBatcher] | None = None
    driver: type[Driver] = StepLoop
    run: Callable[[Model, SessionBinding], Awaitable[None]] | None = None

    def open_driver(self, performer: ServedPerformer, *, once: bool) -> Driver:
        """Open the driver of the performer's session. `once` is for steps: see `StepLoop`."""
        session = performer.session
        if self.source is None:
            return self.driver(session)
        return StepLoop(session, performer.steps(self.source(session)), once=once)


class Loading(msgspec.Struct, frozen=True):
    """How a model is made of its class.

    Attributes:
        check: raises DeclarationError if `Kind.method` cannot be called, given the name of the class, and the class or the
            model.
        make: makes the model, before its binding.
        load: loads a model that has its binding.
    """

    check: Callable[[str, Any], None] = nothing_wrong
    make: Callable[[type[Model], dict[str, Any], ModelHost], Awaitable[Model]] = make_model
    load: Callable[[Any, dict[str, Any]], Awaitable[None]] = call_load


class FramePacing(msgspec.Struct, frozen=True):
    """How the frames of a session are paced.

    Attributes:
        cadence: how long each frame is shown, given the declared and the highest rate.
        pacer: the class that queues the frames; of that cadence.
    """

    cadence: Callable[[Model, float | None, float], Cadence] = cadence_of
    pacer: type[OutputPacer] = OutputPacer


class Kind(msgspec.Struct, frozen=True):
    """A kind of model: what the rest of the runtime asks about its author code. `KINDS` has a row for each.

    Attributes:
        method: the method of the author that makes the frames, for messages.
        driving: what moves its author code.
        loading: how a model of this kind becomes one that can be served.
        pacing: how its frames are paced.
        endless: whether `method` has no end of its own, so a rendering must know when to end.
        threads: whether its code runs on threads of its own, which block where others await.
        one_session: why there can be only one session at a time; empty if there can be several.
    """

    method: str
    driving: Driving
    loading: Loading = Loading()
    pacing: FramePacing = FramePacing()
    endless: bool = False
    threads: bool = False
    one_session: str = ""

    def steps_by_hand(self, name: str) -> Callable[[None], StepSource]:
        """What opens the steps that a program makes by hand. Raises DeclarationError if there are none."""
        if self.driving.source is None:
            raise DeclarationError(
                f"{name}: PipelineExecutor steps a ReactorPipeline or a ReactorApp; test other models with open_session"
            )
        return self.driving.source
