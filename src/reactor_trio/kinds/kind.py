"""`Kind`: what the rest of the runtime asks about a kind of model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from reactor_trio.concurrency import ClockHooks, ModelHost
from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import AppliesCommands, Driver
from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.step_loop import StepLoop, StepSource
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.execution.turns import Turns
from reactor_trio.interface.model import Model, ReactorModel
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


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How the runtime drives the author code of one kind of model. `KINDS` has a row for each.

    Attributes:
        method: the method of the author that makes the frames, for messages.
        source: opens the steps of a session; None (the argument): of a program that makes them by hand.
        driver: the class of drivers of a kind without `source`, which makes its steps itself.
        run: author code that goes on for the model's life, also between its sessions. None: the kind has no such code.
        turns: makes what grants the turns of the model's sessions and steps these together; None: each is stepped alone.
        endless: whether `method` has no end of its own, so a rendering must know when to end.
        check: raises DeclarationError if `method` cannot be called, given the name of the class, and the class or the model.
        make: makes the model from its class, before its binding.
        load: loads a model that has its binding.
        threads: whether its code runs on threads of its own, which block where others await.
        one_session: why there can be only one session at a time; empty if there can be several.
        steps_ahead: `DrivenSession.step` counts so many steps that the model still computes.
        cadence: how long each frame is shown, given the declared and the highest rate.
        pacer: the class that queues the frames; of that cadence.
    """

    method: str
    source: Callable[[DrivenSession | None], StepSource] | None = None
    driver: Callable[[DrivenSession, AppliesCommands], Driver] | None = None
    run: Callable[[Model, SessionBinding], Awaitable[None]] | None = None
    turns: Callable[[ClockHooks, Model], Turns] | None = None
    endless: bool = False
    check: Callable[[str, Any], None] = nothing_wrong
    make: Callable[[type[Model], dict[str, Any], ModelHost], Awaitable[Model]] = make_model
    load: Callable[[Any, dict[str, Any]], Awaitable[None]] = call_load
    threads: bool = False
    one_session: str = ""
    steps_ahead: int = 0
    cadence: Callable[[Model, float | None, float], Cadence] = cadence_of
    pacer: type[OutputPacer] = OutputPacer

    def open_driver(self, performer: ServedPerformer, *, once: bool = False) -> Driver:
        """Open the driver of the performer's session. For `once` see `StepLoop`."""
        session = performer.session
        if self.source is not None:
            return StepLoop(session, performer, performer.steps(self.source(session)), once=once)
        assert self.driver is not None
        return self.driver(session, performer)
