"""`Driver`: how the rest of the runtime sees author code that moves, of whatever kind of model (`kinds/`)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import trio

from reactor_trio.execution.author_calls import CallHandler
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.traced_awaitable import Observer


class AppliesCommands(Protocol):
    """Applies the commands of a session, in the task of its driver."""

    @property
    def moments(self) -> object | None:
        """What keeps the moments of the session; None if the model saves no worlds."""

    async def apply_next(self) -> bool:
        """Apply the oldest pending command and answer its group; False if none is pending."""

    def tell_values(self) -> None:
        """Report the settings that have changed since the last look, if any; called after a step and after a hook."""

    async def step_ended(self, frames: int, whole: bool = True) -> None:
        """Note that a step has ended that has made so many frames, and keep its moment. Only if there are `moments`.

        Args:
            whole: whether the world is: no handler is in the middle of what it does. If not, no moment is kept.
        """


class Driver(ABC):
    """Moves the author code of one session, in one task on the model loop. It owns what it drives.

    Attributes:
        observer: sees where handlers and hooks wait, if they run in the turns that the driver takes; None: they do not.
        call_handler, thread: calls handlers and hooks on this thread; None: the calling task calls them.
        next_block: number of the step that is the first to see a command that is applied now; None: that of the session.
        whole_steps: see `SessionLife`.
        steps_ahead: `DrivenSession.step` counts so many steps that author code still computes.
        emits_alone: author code emits by itself, so its world is whole inside its emits.
    """

    observer: Observer | None = None
    call_handler: CallHandler | None = None
    thread: threading.Thread | None = None
    next_block: int | None = None
    whole_steps: bool = False
    steps_ahead: int = 0
    emits_alone: bool = False

    def __init__(self, session: DrivenSession) -> None:
        self._session = session

    @abstractmethod
    async def drive(self, commands: AppliesCommands) -> None:
        """Run until cancelled, and apply commands. Returns or raises only if author code ended the session.

        Author code may keep the driver, by the context of its session. So `commands` is none of its attributes.
        """

    @contextmanager
    def emits(self, commands: AppliesCommands) -> Generator[Callable[[], Awaitable[bool]], None, None]:
        """Have moments kept inside the emits of author code that moves by itself; gives what applies the next command."""
        session = self._session
        if commands.moments is None:
            yield commands.apply_next
            return
        if (boundary := session.boundary) is None:
            boundary = session.open_boundary(commands.step_ended)
        try:
            yield partial(boundary.handle, commands.apply_next)
        finally:
            if not boundary.holds:  # else nothing is shown until the session is over
                session.boundary = None

    async def apply_commands(
        self, apply_next: Callable[[], Awaitable[bool]], settle: Callable[[bool], Awaitable[None]]
    ) -> None:
        """Apply commands one at a time and in order, as they come, until cancelled, while author code moves by itself.

        Before each, `settle` lets others run; it gets whether the task has rested since.
        """
        session, rested = self._session, False
        while True:
            await settle(rested)
            if session.over:
                await trio.sleep_forever()  # pending commands are discarded
            rested = not await apply_next()
            if rested:
                await session.wakeup.wait()
            else:
                session.command_waited()  # what the model computes now may see the command

    async def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to end
        """End what is left of author code. The caller shields it and sets a deadline."""

    def input_arrived(self) -> None:  # noqa: B027 - other drivers have author code that waits for its input itself
        """An input frame can be read."""

    def input_ended(self) -> None:  # noqa: B027
        """A reader of an input track gets BufferClosed."""

    async def at_boundary(self) -> None:  # noqa: B027 - other drivers have author code that may stop at any await
        """Return when author code of the session is at a place where its hooks may run."""
