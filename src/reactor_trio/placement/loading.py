"""From a model class to a loaded model with its declaration and its binding, on the model's thread."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.execution.command_queue import CommandQueue
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.model_checks import buffer_size_of, check_model, refuse_no_generator, sessions_of
from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.execution.turns import Turn
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model, ReactorModel
from reactor_trio.interface.progress import reported_load
from reactor_trio.interface.video_model import VideoModel, instantiate
from reactor_trio.pacing import BlockCadence, Cadence, PlayoutForecast
from reactor_trio.pacing.cadence import checked_fps
from reactor_trio.placement.local_session_run import LocalSessionRun
from reactor_trio.placement.session_copies import SessionCopies, SessionCopy
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.server")


class LoadedModel(msgspec.Struct, frozen=True):
    """A model that can be served. `max_sessions`, `max_fps` and `buffer_size` are the manifest's, or the model's own."""

    host: ModelHost
    settings: Settings
    model: Model
    declaration: Declaration
    session_copies: SessionCopies
    max_sessions: int
    max_fps: float
    buffer_size: int
    #: makes what performs the actions of a session's life
    performer_type: Callable[..., ServedPerformer] = ServedPerformer

    def open_session_run(self, session_id: str, client: tuple[int, float]) -> LocalSessionRun:
        """Make the run of a new session, on the I/O loop.

        Args:
            session_id: for the log.
            client: number and joining time of the controlling client.
        """
        copy = self.session_copies.take()
        make_runner = partial(self._make_runner, session_id, client, copy)
        closed = partial(self.session_copies.give_back, copy)
        return LocalSessionRun(self.host, make_runner, self.settings.stuck_after, closed)

    def _make_runner(
        self, session_id: str, client: tuple[int, float], copy: SessionCopy, *, channel: ChannelEnd
    ) -> SessionRunner:
        commands, binding = CommandQueue(), copy.binding
        forecast = PlayoutForecast(self.buffer_size, assume=self.settings.slow_client != "hold")
        pacer = OutputPacer(
            channel, self.declaration, self._cadence(binding), forecast, commands.wakeup, binding.count_drop,
            binding.turn.give_back,
        )  # fmt: skip
        driven = DrivenSession(
            session_id=session_id, host=self.host, model=copy.model, binding=binding, declaration=self.declaration,
            channel=channel, commands=commands, output_pacer=pacer,
        )  # fmt: skip
        performer = self.performer_type(driven, copy.binding, client, copy.own, self.session_copies.batcher)
        return SessionRunner(driven, copy.binding, performer)

    def _cadence(self, binding: SessionBinding) -> Cadence:
        if self.declaration.kind != "blocking":
            return Cadence(binding.declared_fps, self.max_fps)
        fixed = fixed_rate(type(self.model))
        return BlockCadence(fixed or binding.declared_fps, self.max_fps, fixed=fixed is not None)


async def load_model(
    model_class: type[Model],
    config: dict[str, Any],
    host: ModelHost,
    settings: Settings,
    telemetry: Telemetry,
    prepare: Callable[[Model], object] = lambda _model: None,
) -> LoadedModel:
    """Check a model's class, make a model of it, give it its binding and load it.

    Raises DeclarationError, ManifestError, and the exceptions of author code. A doubt about the class is logged.

    Args:
        telemetry: counts and traces what happens.
        prepare: called with the model when that has its binding and is not yet loaded.
    """
    checked = check_model(model_class, settings)
    for doubt in checked.doubts:
        log.warning("%s; %s", doubt.text, doubt.remedy)
    declaration = checked.declaration
    with reported_load(host.post_io, telemetry.loading):
        model = await _instantiate(model_class, config, host)
    max_fps = checked_fps(settings.max_fps or model.max_fps)
    declared = _declared_fps(model) if settings.fps is None else settings.fps

    def open_binding(turn: Turn | None = None) -> SessionBinding:
        return SessionBinding(host, declaration, declared, max_fps, telemetry, turn, settings.limits.input_bytes)

    model._reactor_binding = binding = open_binding()
    prepare(model)
    if isinstance(model, ReactorModel):
        with reported_load(host.post_io, telemetry.loading):
            await call_load(model, config)
    binding.loaded(_declared_fps(model) if settings.fps is None else settings.fps)
    declared = binding.declared_fps
    if declaration.kind == "pipeline" and not declaration.batched:  # again: `load` may have assigned one
        refuse_no_generator(model_class.__qualname__, model.inference)  # type: ignore[attr-defined]
    buffer_size, max_sessions = buffer_size_of(model, settings), sessions_of(model, settings)
    session_copies = SessionCopies(model, declaration, binding, max_sessions, host, open_binding)
    loaded_max_fps = checked_fps(settings.max_fps or model.max_fps)
    return LoadedModel(host, settings, model, declaration, session_copies, max_sessions, loaded_max_fps, buffer_size)


async def call_load(model: ReactorModel, config: dict[str, Any]) -> None:
    """Call the model's `load`, plain or async, with its configuration or the path of that."""
    loaded: Awaitable[None] | None = model.load(load_argument(model.load, config))  # type: ignore[func-returns-value]
    if inspect.isawaitable(loaded):
        await TracedAwaitable(loaded)


async def _instantiate(model_class: type[Model], config: dict[str, Any], host: ModelHost) -> Model:
    if issubclass(model_class, VideoModel):
        return await host.author_threads[0].run(instantiate, model_class, config)
    return model_class()


def _declared_fps(model: Model) -> float | None:
    """The rate that the author declared, on the class or in `load`; None if only the base class declares one."""
    if "fps" in vars(model) or any("fps" in vars(c) for c in type(model).__mro__ if issubclass(c, Model)
                                   and not c.__module__.startswith("reactor_trio.interface")):  # fmt: skip
        return checked_fps(model.fps)
    return None
