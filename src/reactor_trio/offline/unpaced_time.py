"""`UnpacedTime`: where a session without a client waits, for room in the film and for the commands of the script."""

from __future__ import annotations

import math

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.offline.film_room import FilmRoom
from reactor_trio.offline.script_queue import ScriptQueue

#: Seconds that a step waits for handlers at most: a handler that itself waits for the next frame would never end.
HANDLERS_TIMEOUT = 5.0


class UnpacedTime(ClockHooks):
    """The hooks in real time, at which the model waits for room in the film and for commands.

    Args:
        threaded: whether the model loop runs on a thread; if not, it is a task of the I/O loop.
    """

    charges = False

    def __init__(self, *, threaded: bool) -> None:
        self.threaded = threaded
        self.costs = self.author_threads = self
        self._session: DrivenSession | None = None
        self._released = False
        # A virtual clock may jump while a handler computes on a thread of its own; then there is no limit.
        self._handlers_timeout = HANDLERS_TIMEOUT if threaded else math.inf

    def begin(self, session: DrivenSession, commands: ScriptQueue, room: FilmRoom) -> None:
        """Wait for this session from now on."""
        self._session, self._commands, self._room = session, commands, room

    # ---- posted by the I/O loop ---------------------------------------------------------------------------------------

    def taken(self) -> None:
        """Record that the sink has taken a bundle."""
        self._room.taken()
        self._commands.wakeup.set()

    def release(self) -> None:
        """End the rendering: no step waits for the sink or for a command any more."""
        self._released = True
        self._commands.wakeup.set()

    # ---- hooks --------------------------------------------------------------------------------------------------------

    async def spend(self, step: int) -> None:
        """Wait until the film has room, or the rendering ends."""
        while self._waits and (self._room.full or self._room.enough):
            self._room.tell_enough()
            await self._commands.wakeup.wait()

    async def author_resumes(self) -> None:
        """Wait until the commands that the next block sees are applied: at the start, and after each push."""
        await self._commands_applied()

    def author_rests(self) -> None:
        """Do nothing: no clock is held."""

    async def run_loop_resumes(self) -> None:
        """Wait until the commands that the next frame sees are applied."""
        await self._commands_applied()

    @property
    def _waits(self) -> bool:
        return self._session is not None and not self._released and not self._session.over

    @property
    def _emit_is_wanted(self) -> bool:
        """Whether a command waits for the emit that waits here, to go on from another world."""
        return self._session is not None and (boundary := self._session.boundary) is not None and boundary.wanted

    async def _commands_applied(self) -> None:
        """Wait until every command that is due is applied. Returns at once in a handler, which is part of a command."""
        if not self._waits or self._commands.in_handler:
            return
        commands = self._commands
        commands.caught_up = False
        commands.wakeup.set()
        with trio.move_on_after(self._handlers_timeout if commands.began else math.inf):
            while self._waits and not commands.caught_up and not self._emit_is_wanted:
                await commands.wakeup.wait()
