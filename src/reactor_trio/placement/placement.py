"""The placement of a model: the model loop of this process (`LocalPlacement`), or another process (`isolation`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from reactor_trio.concurrency import ModelHost, with_twin
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.execution.session_run import SessionRun
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.kinds.model_checks import check_model
from reactor_trio.placement.loading import LoadedModel, load_model
from reactor_trio.placement.model_run import ModelEnding, ModelRun
from reactor_trio.plain_text import sendable
from reactor_trio.telemetry import Telemetry

#: `check(text, command, field)` gives the reason for which the text is refused, None if it is fine. It does not raise.
Check = Callable[[str, str, str], Awaitable[str | None]]


class Placement(Protocol):
    """A loaded model where it runs.

    Attributes:
        max_sessions: how many sessions it serves at the same time.
        model: the instance; None if it is in another process.
        process: that process; None without one.
        moderate: checks the text in commands, in this process wherever the model is; None: nothing does.
        running: how many calls of the model loop go on for the server's life: each `run()`, and the granting of turns.
    """

    declaration: Declaration
    max_sessions: int
    model: Model | None
    process: Any
    moderate: Check | None
    running: int

    def open_session_run(self, session_id: str, client: tuple[int, float]) -> SessionRun:
        """Make the run of a session with this id, for the client of this number and joining time."""

    async def begin(self) -> None:
        """Return when the model's `run()`, which `until_ended` has started, has had its first turn of the loop."""

    async def until_ended(self) -> ModelEnding:
        """Run the model's own `run()`; returns when that, or the model, has ended."""

    def killed(self, error: BaseException) -> None:
        """End the model by the exception that ended a session: it cannot go on, for example after SystemExit."""

    def idle(self) -> None:
        """Have the model's own processes, if it has some, free unused memory: no session has run for a while."""


#: Imports, makes and loads the model where it runs, given config, settings and telemetry; again, after an end that
#: `restarts`. Raises ManifestError if the model cannot be imported, ModelFailed with the author's exception as cause.
LoadPlacement = Callable[[dict[str, Any], Settings, Telemetry], Awaitable[Placement]]


def not_loaded(name: str, kind: str, text: str) -> ModelFailed:
    """The error for a model `name` whose class, or whose load, raised an exception of this kind and text."""
    return ModelFailed(f"{name}: {text}" if kind == DeclarationError.__name__ else f"{name}: load() raised {kind}: {text}")


class SeveralRanks(ReactorError):
    """The model takes more than one process."""


async def load_on(
    host: ModelHost,
    name: str,
    find_model: Callable[[], type[Model]],
    config: dict[str, Any],
    settings: Settings,
    telemetry: Telemetry,
) -> LoadedModel:
    """Find, check, make and load a model on the model loop of `host`.

    Raises ManifestError if the model cannot be imported, SeveralRanks as `find_model` does, ModelFailed with the author's
    exception as cause.
    """

    async def load() -> LoadedModel:
        return await load_model(find_model(), config, host, settings, telemetry)

    try:
        return await host.run(load)
    except (trio.Cancelled, ManifestError, SeveralRanks):
        raise
    except BaseException as raised:
        if host.is_interrupt(raised):
            raise
        error = with_twin(raised)
        raise not_loaded(name, type(error).__name__, sendable(error)) from error


class LocalPlacement(ModelRun):
    """See `Placement`; the model runs on the model loop of this process."""

    process = None

    def __init__(self, loaded: LoadedModel, moderate: Check | None) -> None:
        super().__init__(loaded)
        self.declaration = loaded.declaration
        self.max_sessions = loaded.max_sessions
        self.model: Model | None = loaded.model
        self.moderate = moderate
        self.open_session_run = loaded.open_session_run

    async def begin(self) -> None:
        """See `Placement`."""
        await self._host.run(self._two_turns)
        await trio.lowlevel.checkpoint()

    def idle(self) -> None:
        """See `Placement`: this process does that itself."""

    async def _two_turns(self) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()


async def load_here(
    host: ModelHost,
    name: str,
    find: Callable[[], tuple[type[Model], Check | None]],
    config: dict[str, Any],
    settings: Settings,
    telemetry: Telemetry,
) -> LocalPlacement:
    """Load the model on the model loop of this process; see `LoadPlacement`. Raises SeveralRanks if that cannot serve it.

    `find` gives the model class, and what checks the text in commands; called on the model thread, so that an import happens
    there.
    """
    moderate: Check | None = None

    def find_model() -> type[Model]:
        nonlocal moderate
        model_class, moderate = find()
        if check_model(model_class, settings).processes > 1:
            raise SeveralRanks
        return model_class

    loaded = await load_on(host, name, find_model, config, settings, telemetry)
    return LocalPlacement(loaded, moderate)
