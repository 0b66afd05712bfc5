"""Sessions that may outlive their connections: the nursery that runs them, and the tokens by which clients resume them."""

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
    """The resumable sessions of one server.

    Args:
        window: seconds in which a lost client may come back. 0: each session runs in the scope of its connection and ends
            with it.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._resumables: dict[str, ResumableSession] = {}  # by session
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Task: run the sessions that outlive their connections, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    @asynccontextmanager
    async def home(self) -> AsyncIterator[Begin]:
        """Open the scope of a new session and return the function that starts it there."""
        if self.window:
            yield self._begin
            return
        async with trio.open_nursery() as nursery:
            yield nursery.start_soon

    def add(self, resumable: ResumableSession) -> None:
        """Register a session that begins."""
        self._resumables[resumable.session.id] = resumable

    def changed(self, resumable: ResumableSession) -> None:
        """Remove the session if it is over."""
        if resumable.over:
            self._resumables.pop(resumable.session.id, None)

    def find(self, session_id: str) -> ResumableSession | None:
        """Return the resumable session with this id."""
        return self._resumables.get(session_id)

    def of_token(self, token: str | None) -> ResumableSession | None:
        """Return the session that its client may resume now with `token`."""
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
        """The sessions whose client is disconnected and may come back."""
        return [resumable for resumable in self._resumables.values() if resumable.away]

    def _begin(self, run: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None, "ResumableSessions.run has not begun"
        self._nursery.start_soon(_alone, run)


async def _alone(run: Callable[[], Awaitable[None]]) -> None:
    """Run one session. A fault of the runtime in it must not end the others."""
    try:
        await run()
    except* Exception as group:
        log.error("a session failed in the runtime: please report this", exc_info=group)
