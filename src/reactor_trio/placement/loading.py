"""From a class that is checked to a loaded model with its declaration and its binding, on the model's thread.

A model is loaded in this order. `model_source.placement_loader` finds its class, checks it (`check_model`), and chooses
where it runs. If that is in other processes, `load_in_process` starts them, and each finds and checks the class again
(`ProcessWorker`). There, or here, `load_model` makes the model, gives it its binding and loads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.local_channel import open_local_channel
from reactor_trio.execution.command_queue import CommandQueue
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.session_tasks import SessionTasks
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.interface.progress import reported_load
from reactor_trio.interface.saving import WorldDeclaration
from reactor_trio.kinds.kind import Kind
from reactor_trio.kinds.model_checks import CheckedModel, buffer_size_of, config_doubts, has_value, sessions_of
from reactor_trio.kinds.table import kind_of
from reactor_trio.pacing import Cadence, PlayoutForecast, Room
from reactor_trio.pacing.cadence import checked_fps
from reactor_trio.placement.local_session_run import LocalSessionRun, OpenChannel
from reactor_trio.placement.model_instances import ModelInstance, ModelInstances
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:
    from reactor_trio.execution.session_moments import SessionMoments

log = logging.getLogger("reactor_trio.server")


class LoadedModel(msgspec.Struct, frozen=True):
    """A model that can be served. `max_sessions`, `max_fps` and `buffer_size` are the manifest's, or the model's own."""

    host: ModelHost
    settings: Settings
    model: Model
    declaration: Declaration
    kind: Kind
    instances: ModelInstances
    max_sessions: int
    max_fps: float
    buffer_size: int
    #: called when a session has made its first frame
    first_frame: Callable[[], object]
    #: makes what performs the actions of a session's life
    performer_type: Callable[..., ServedPerformer] = ServedPerformer
    #: of a rendering: see `StepLoop`
    once: bool = False
    #: of a rendering: see `SessionMoments`
    named_moments: frozenset[int] | None = None

    def weights(self) -> str:
        """See `world_weights`."""
        return world_weights(self.declaration, self.model)

    def open_session_run(
        self, session_id: str, client: tuple[int, float], open_channel: OpenChannel = open_local_channel
    ) -> LocalSessionRun:
        """Make the run of a new session, on the I/O loop.

        Args:
            session_id: for the log.
            client: number and joining time of the controlling client.
            open_channel: opens the session's channel.
        """
        copy = self.instances.take()
        make_tasks = partial(
            self.make_tasks, session_id, client, copy, commands=CommandQueue(),
            cadence=self.kind.pacing.cadence(self.model, copy.binding.declared_fps, self.max_fps),
            room=PlayoutForecast(self.buffer_size, assume=self.settings.slow_client != "hold"),
            dropped=copy.binding.count_drop,
        )  # fmt: skip
        closed = partial(self.instances.give_back, copy)
        return LocalSessionRun(self.host, make_tasks, self.settings.stuck_after, closed, open_channel)

    def make_tasks(
        self, session_id: str, client: tuple[int, float], copy: ModelInstance, *, channel: ChannelEnd,
        commands: CommandQueue, cadence: Cadence, room: Room, dropped: Callable[[str, str, int], object],
    ) -> SessionTasks:  # fmt: skip
        """Make the model's side of a session, live or rendered, on the I/O loop.

        Args:
            session_id, client: see `open_session_run`.
            copy: the model instance that serves the session.
            channel: the model's end of the session's channel.
            commands, cadence, room, dropped: see `DrivenSession` and `OutputPacer`.
        """
        pacer = self.kind.pacing.pacer(
            channel, self.declaration, cadence, room, commands.wakeup, dropped, self.first_frame, copy.binding.turn.give_back
        )
        driven = DrivenSession(
            session_id=session_id, host=self.host, model=copy.model, binding=copy.binding, declaration=self.declaration,
            channel=channel, commands=commands, output_pacer=pacer,
        )  # fmt: skip
        new_driver = partial(self.kind.driving.open_driver, once=self.once)
        make_performer = partial(
            self.performer_type, session=driven, controller=client, new_driver=new_driver, own_model=copy.own,
            moments=None if self.declaration.world is None else self._moments(self.declaration.world),
        )  # fmt: skip
        return SessionTasks(driven, make_performer)

    def _moments(self, world: WorldDeclaration) -> SessionMoments:
        """What keeps the moments of a new session, in its part of the memory for them."""
        from reactor_trio.execution.session_moments import SessionMoments  # late: models without Saves import none of it

        settings = self.settings.worlds
        ring = (settings.ring - settings.pictures) // self.max_sessions if world.allowed(settings.allow) else 0
        return SessionMoments(world, ring, self.max_sessions == 1, settings.bytes, self.named_moments)


async def load_model(
    checked: CheckedModel,
    config: dict[str, Any],
    host: ModelHost,
    settings: Settings,
    telemetry: Telemetry,
    prepare: Callable[[Model], object] = lambda _model: None,
) -> LoadedModel:
    """Make a model, give it its binding and load it. A doubt about its class or `config` is logged.

    Raises DeclarationError, ManifestError, and the exceptions of author code.

    Args:
        telemetry: counts and traces what happens.
        prepare: called with the model when that has its binding and is not yet loaded.
    """
    for doubt in (*checked.doubts, *config_doubts(checked.declaration.model, config)):
        log.warning("%s; %s", doubt.text, doubt.remedy)
    declaration, kind = checked.declaration, kind_of(checked.declaration)
    model_class = declaration.model
    with reported_load(host.post_io, telemetry.loading):
        model = await kind.loading.make(model_class, config, host)
    declared, max_fps = _rates(model, settings, loaded=False)

    model._reactor_binding = binding = SessionBinding(
        host, declaration, declared, max_fps, telemetry, None, settings.limits.input_bytes,
        lasting=kind.driving.run is not None,
    )  # fmt: skip
    prepare(model)
    with reported_load(host.post_io, telemetry.loading):
        await kind.loading.load(model, config)
    declared, max_fps = _rates(model, settings, loaded=True)
    binding.loaded(declared, max_fps)
    kind.loading.check(model_class.__qualname__, model)  # again: `load` may have assigned another method
    buffer_size, max_sessions = buffer_size_of(model, settings), sessions_of(model, settings)
    instances = ModelInstances(model, kind, binding, max_sessions, host)
    first_frame = partial(host.post_io, telemetry.stepped)
    return LoadedModel(
        host, settings, model, declaration, kind, instances, max_sessions, max_fps, buffer_size, first_frame
    )


def _rates(model: Model, settings: Settings, *, loaded: bool) -> tuple[float | None, float]:
    """The declared rate, None without one, and the upper limit. Before the load the defaults stand in for properties."""
    declared, max_fps = settings.fps, settings.max_fps
    if declared is None and (loaded or has_value(type(model), "fps")):
        declared = _declared_fps(model)
    if not max_fps:
        max_fps = model.max_fps if loaded or has_value(type(model), "max_fps") else Model.max_fps
    return declared, checked_fps(max_fps)


def _declared_fps(model: Model) -> float | None:
    """The rate that the author declared, on the class or in `load`; None if only the base class declares one."""
    if "fps" in vars(model) or any("fps" in vars(c) for c in type(model).__mro__ if issubclass(c, Model)
                                   and not c.__module__.startswith("reactor_trio.interface")):  # fmt: skip
        return checked_fps(model.fps)
    return None


def world_weights(declaration: Declaration, model: Model) -> str:
    """What identifies the weights in saved worlds; empty for a model that saves none. Blocks."""
    if declaration.world is None:
        return ""
    from reactor_trio.worlds.weights import weights_of  # late: as above all of `worlds`

    return weights_of(model)
