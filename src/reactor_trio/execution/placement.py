"""The place where a model runs: the model loop of this process (`LocalPlacement`), or another process (`isolation`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.concurrency import ModelHost, with_twin
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.execution.loading import LoadedModel, load_model
from reactor_trio.execution.model_checks import check_model
from reactor_trio.execution.model_loop import ModelLoop
from reactor_trio.execution.model_session import ModelSession
from reactor_trio.execution.session_copies import SessionCopies
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.telemetry import Telemetry

#: `check(text, command, field)` gives the reason for which the text is refused, None if it is fine. It does not raise.
Check = Callable[[str, str, str], Awaitable[str | None]]
#: makes the model's side of a session with this id, for the client of this number and joining time
OpenModelSession = Callable[[str, tuple[int, float]], ModelSession]


class Placed(msgspec.Struct, frozen=True):
    """A loaded model.

    Attributes:
        max_sessions: how many sessions it serves at the same time.
        model: the instance; None if it is in another process.
        moderate: checks the text in commands, in this process wherever the model is; None: nothing does.
    """

    declaration: Declaration
    open_model_session: OpenModelSession
    max_sessions: int
    model: Model | None
    moderate: Check | None


class Ending(msgspec.Struct, frozen=True):
    """Why a model has ended, in words; the exception that ended it; whether it can be loaded again."""

    what: str
    cause: BaseException | None = None
    restarts: bool = False


class Placement(Protocol):
    """A place for one model."""

    @property
    def running(self) -> int:
        """How many calls of the model loop go on for the server's life: each `run()`, and the granting of turns."""

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """Import, make and load the model; again, after an end that `restarts`.

        Raises ManifestError if it cannot be imported, ModelFailed with the author's exception as cause.
        """

    async def begin(self) -> None:
        """Return when the model's `run()`, which `until_ended` has started, has had its first turn of the loop."""

    async def until_ended(self) -> Ending:
        """Run the model's own `run()`; returns when that, or the model, has ended."""

    def killed(self, error: BaseException) -> None:
        """End the model: code of a session raised an exception that no program survives, such as SystemExit."""


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
        if isinstance(raised, KeyboardInterrupt) and host.thread is None:  # Ctrl-C in a test, on the main thread
            raise
        error = with_twin(raised) if isinstance(raised, Exception) else raised
        raise not_loaded(name, type(error).__name__, str(error)) from error


class LocalPlacement:
    """Runs the model on the model loop of this process.

    Args:
        find_model: gives the model class; called on the model thread, so that an import of its module happens there.
        find_moderation: gives the function that checks the text in commands, or None; called after `find_model`.
    """

    def __init__(
        self,
        host: ModelHost,
        name: str,
        find_model: Callable[[], type[Model]],
        find_moderation: Callable[[], Check | None] = lambda: None,
    ) -> None:
        self._host = host
        self._name = name
        self._find_model = find_model
        self._find_moderation = find_moderation
        self._loop = ModelLoop(host)
        self._session_copies: SessionCopies | None = None

    @property
    def running(self) -> int:
        """See `Placement`."""
        return self._loop.running

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """See `Placement`."""
        moderate: Check | None = None

        def find() -> type[Model]:
            nonlocal moderate
            model_class, moderate = self._find_model(), self._find_moderation()  # a mistake in either is found before load
            if check_model(model_class, settings).ranks > 1:
                raise SeveralRanks
            return model_class

        loaded = await load_on(self._host, self._name, find, config, settings, telemetry)
        open_model_session = partial(loaded.open_model_session, host=self._host, settings=settings)
        self._session_copies = loaded.session_copies
        return Placed(loaded.declaration, open_model_session, loaded.max_sessions, loaded.model, moderate)

    async def begin(self) -> None:
        """See `Placement`."""
        await self._host.run(self._two_turns)
        await trio.lowlevel.checkpoint()

    async def until_ended(self) -> Ending:
        """See `Placement`."""
        return Ending(*await self._loop.until_ended(self.session_copies))

    @property
    def session_copies(self) -> SessionCopies:
        """The instances of the loaded model."""
        assert self._session_copies is not None, "the model is not loaded"
        return self._session_copies

    def killed(self, error: BaseException) -> None:
        """See `Placement`."""
        self._loop.killed(error)

    async def _two_turns(self) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
