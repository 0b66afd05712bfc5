"""The placement of a model: the model loop of this process (`LocalPlacement`), or another process (`isolation`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar

import trio

from reactor_trio.concurrency import ModelHost, author_error, note_place, place_of
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed
from reactor_trio.execution.session_run import SessionRun
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.placement.loading import LoadedModel
from reactor_trio.placement.model_run import ModelEnding, ModelRun
from reactor_trio.plain_text import sendable
from reactor_trio.telemetry import Telemetry

T = TypeVar("T")

#: `check(command, texts)` gives the reason for which the command is refused, None if its texts are fine. It does not raise.
#: Each text has the name of its argument before it.
Check = Callable[[str, Sequence[tuple[str, str]]], Awaitable[str | None]]


class Placement(Protocol):
    """A loaded model where it runs.

    Attributes:
        max_sessions: how many sessions it serves at the same time.
        model: the instance; None if it is in another process.
        process: that process; None without one.
        processes: how many processes run it.
        moderate: checks the text in commands, in this process wherever the model is; None: nothing does.
        running: how many calls of the model loop go on for the server's life: each `run()`, or the making of batches.
    """

    declaration: Declaration
    max_sessions: int
    model: Model | None
    process: Any
    processes: int
    moderate: Check | None
    running: int

    def weights(self) -> str:
        """What identifies the weights in saved worlds. Blocks at the first call."""

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


#: Imports, makes and loads the model where it runs, given its config and the telemetry; again, after an end that `restarts`.
#: Raises ManifestError if the model cannot be imported, ModelFailed with the author's exception as cause.
LoadPlacement = Callable[[dict[str, Any], Telemetry], Awaitable[Placement]]


def not_loaded(name: str, kind: str, text: str) -> ModelFailed:
    """The error for a model `name` whose class, or whose load, raised an exception of this kind and text."""
    return ModelFailed(f"{name}: {text}" if kind == DeclarationError.__name__ else f"{name}: load() raised {kind}: {text}")


async def called(function: Callable[[], T]) -> T:
    """Call a plain function, for `ModelHost.run`: a model is imported on the thread on which it is loaded."""
    return function()


@contextmanager
def failing_load(name: str, host: ModelHost | None) -> Iterator[None]:
    """A block that finds, checks, makes or loads the model `name`, partly on `host`.

    Raises ManifestError if the model cannot be imported, else ModelFailed with the author's exception as cause.
    """
    try:
        yield
    except (trio.Cancelled, ManifestError, ModelFailed):
        raise
    except BaseException as raised:
        if isinstance(raised, KeyboardInterrupt) and (host is None or host.is_interrupt(raised)):
            raise
        error = author_error(raised)
        failed = not_loaded(name, type(error).__name__, sendable(error))
        note_place(failed, place_of(error))
        raise failed from error


class LocalPlacement(ModelRun):
    """A `Placement` on the model loop of this process."""

    process = None
    processes = 1

    def __init__(self, loaded: LoadedModel, moderate: Check | None) -> None:
        super().__init__(loaded)
        self.declaration = loaded.declaration
        self.max_sessions = loaded.max_sessions
        self.model: Model | None = loaded.model
        self.moderate = moderate
        self.open_session_run = loaded.open_session_run
        self.weights = cache(loaded.weights)

    async def begin(self) -> None:
        """Return when the model's `run()` has had its first turn of the loop."""
        await self._host.run(self._two_turns)
        await trio.lowlevel.checkpoint()

    def idle(self) -> None:
        """Do nothing: this process frees its memory itself."""

    async def _two_turns(self) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

