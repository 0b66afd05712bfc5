"""`Driver`: how the rest of the runtime sees author code that moves, of whatever kind of model (`kinds/`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.traced_awaitable import Observer


class Driver(ABC):
    """Moves the author code of one session, in one task on the model loop. It owns what it drives.

    Attributes:
        observer: sees where handlers and hooks wait, if they run in the turns that the driver takes; None: they do not.
    """

    observer: Observer | None = None

    def __init__(self, session: DrivenSession) -> None:
        self._session = session

    @abstractmethod
    async def drive(self) -> None:
        """Run until cancelled. Returns or raises only if author code ended the session."""

    async def apply_commands(self, settle: Callable[[bool], Awaitable[None]]) -> None:
        """Apply commands one at a time and in order, as they come, until cancelled, while author code moves by itself.

        Before each, `settle` lets others run; it gets whether the task has rested since.
        """
        session, rested = self._session, False
        while True:
            await settle(rested)
            if session.over:
                await trio.sleep_forever()  # pending commands are discarded
            rested = not await session.apply_next()
            if rested:
                await session.wakeup.wait()
            else:
                session.command_waited()  # what the model computes now may see the command

    async def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to end
        """End what is left of author code. The caller shields it and sets a deadline."""

    async def at_boundary(self) -> None:  # noqa: B027 - other drivers have author code that may stop at any await
        """Return when author code of the session is at a place where its hooks may run."""
