"""The stays that may outlive their connections: where they run, and by which token a client finds its own again."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from reactor_trio.connection import ResumableSession

log = logging.getLogger("reactor_trio.server")

Begin = Callable[[Callable[[], Awaitable[None]]], None]


class ResumableSessions:
    """The stays of one server.

    Args:
        window: seconds in which a lost client may come back; 0: each stay ends with its connection, and runs in its scope.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._resumables: dict[str, ResumableSession] = {}  # by session
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Task: the scope of all that outlive their connections; until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    @asynccontextmanager
    async def home(self) -> AsyncIterator[Begin]:
        """Where a new stay runs: gives what starts it."""
        if self.window:
            yield self._begin
            return
        async with trio.open_nursery() as nursery:
            yield nursery.start_soon

    def add(self, resumable: ResumableSession) -> None:
        """It begins."""
        self._resumables[resumable.session.id] = resumable

    def changed(self, resumable: ResumableSession) -> None:
        """It may be over."""
        if resumable.over:
            self._resumables.pop(resumable.session.id, None)

    def find(self, session_id: str) -> ResumableSession | None:
        """The stay of a session."""
        return self._resumables.get(session_id)

    def of_token(self, token: str | None) -> ResumableSession | None:
        """The one to which its client may come back now with `token`."""
        if token is None:
            return None
        for resumable in self._resumables.values():
            if (
                resumable.open
                and resumable.token is not None
                and secrets.compare_digest(resumable.token.encode(), token.encode())
            ):
                return resumable
        return None

    @property
    def away(self) -> list[ResumableSession]:
        """Those whose client is away and may come back."""
        return [resumable for resumable in self._resumables.values() if resumable.away]

    def _begin(self, run: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None, "Stays.run has not begun"
        self._nursery.start_soon(_alone, run)


async def _alone(run: Callable[[], Awaitable[None]]) -> None:
    """A fault of the runtime in one stay must not take the others down."""
    try:
        await run()
    except* Exception as group:
        log.error("a session failed in the runtime: please report this", exc_info=group)
