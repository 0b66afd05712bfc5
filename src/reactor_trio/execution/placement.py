"""Where the model runs: on a loop of this process (`LocalPlacement`), or in a process of its own (`isolation`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.concurrency import ModelHost, with_twin
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.execution.loading import load_model
from reactor_trio.execution.model_checks import check_model
from reactor_trio.execution.model_loop import ModelLoop
from reactor_trio.execution.model_session import ModelSession
from reactor_trio.execution.session_copies import SessionCopies
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.telemetry import Telemetry

#: `check(text, command, field)` gives the reason for which the text is refused, None if it is fine. It does not raise.
Check = Callable[[str, str, str], Awaitable[str | None]]
#: gives the model's side of a session of this id, for the client of this number and joining time
OpenHalf = Callable[[str, tuple[int, float]], ModelSession]


class Placed(msgspec.Struct, frozen=True):
    """A model that is loaded.

    Attributes:
        max_sessions: how many it serves at the same time.
        model: the instance; None if it is in another process.
        moderate: checks the text in commands; it runs in this process wherever the model is.
    """

    declaration: Declaration
    open_model_session: OpenHalf
    max_sessions: int
    model: Model | None
    moderate: Check | None


class Ending(msgspec.Struct, frozen=True):
    """Why a model is there no longer, in words, what it raised, and whether it can be loaded again."""

    what: str
    cause: BaseException | None = None
    restarts: bool = False


class Placement(Protocol):
    """A place for one model."""

    @property
    def running(self) -> int:
        """How many calls of the model loop go on for the server's life: each `run()`, and what grants turns."""

    async def load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        """Import, make and load the model; again, if it has ended in a way that `restarts`.

        Raises ManifestError if it cannot be imported, ModelFailed with the author's exception as cause.
        """

    async def begin(self) -> None:
        """Return when `run()`, which `until_ended` has started before, has had its first turn."""

    async def until_ended(self) -> Ending:
        """Run the model's own loop; returns when it, or the model, has ended."""

    def killed(self, error: BaseException) -> None:
        """Model code of a session raised what no program survives, such as SystemExit."""


def not_loaded(name: str, kind: str, text: str) -> ModelFailed:
    """That loading the model `name` raised an exception of this kind and text; its class may be wrong, or its load."""
    return ModelFailed(f"{name}: {text}" if kind == DeclarationError.__name__ else f"{name}: load() raised {kind}: {text}")


class SeveralRanks(ReactorError):
    """The model is not one for a single process."""


class LocalPlacement:
    """On the model loop of this process.

    Args:
        find_model: gives the model class; called on the model thread, so that an import of its module happens there.
        find_moderation: gives what checks the text in commands, or None; called after it.
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
        try:
            return await self._host.run(self._load, config, settings, telemetry)
        except trio.Cancelled:
            raise
        except BaseException as raised:
            if self._loop.is_interrupt(raised) or isinstance(raised, (ManifestError, SeveralRanks)):
                raise
            error = with_twin(raised) if isinstance(raised, Exception) else raised
            raise not_loaded(self._name, type(error).__name__, str(error)) from error

    async def begin(self) -> None:
        """See `Placement`."""
        await self._host.run(self._two_turns)
        await trio.lowlevel.checkpoint()

    async def until_ended(self) -> Ending:
        """See `Placement`."""
        return Ending(*await self._loop.until_ended(self.session_copies))

    @property
    def session_copies(self) -> SessionCopies:
        """Where the sessions of the loaded model sit."""
        assert self._session_copies is not None, "the model is not loaded"
        return self._session_copies

    def killed(self, error: BaseException) -> None:
        """See `Placement`."""
        self._loop.killed(error)

    async def _load(self, config: dict[str, Any], settings: Settings, telemetry: Telemetry) -> Placed:
        model_class, moderate = self._find_model(), self._find_moderation()  # a mistake in either is found before the load
        if check_model(model_class, settings).ranks > 1:
            raise SeveralRanks
        loaded = await load_model(model_class, config, self._host, settings, telemetry)
        open_model_session = partial(loaded.open_model_session, host=self._host, settings=settings)
        self._session_copies = loaded.session_copies
        return Placed(loaded.declaration, open_model_session, loaded.max_sessions, loaded.model, moderate)

    async def _two_turns(self) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
