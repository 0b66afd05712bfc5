"""`EmittedBlocks`: what the author's threads of a blocking model do on the model loop. `BlockingContext` has them do it."""

from __future__ import annotations

from typing import Any, cast

import trio

from reactor_trio.execution.call_monitor import RunningCall
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.kinds.block_pacer import BlockPacer
from reactor_trio.media import Chunk, Origin


class EmittedBlocks:
    """The blocks of one session: what the author computes between two emits.

    What a block is made of is not known until it is pushed, so it gets its number then, with the command that it may have
    seen for certain.

    Attributes:
        session_thread, handler_thread: the author's threads.
        next_block: see `Driver`.
    """

    next_block: int | None = None

    def __init__(self, session: DrivenSession) -> None:
        self._session = session
        self.session_thread, self.handler_thread = session.host.author_threads
        self._pacer = cast(BlockPacer, session.output_pacer)
        # of the block that the session's thread computes now
        self._command: int | None = None
        self._waited: float | None = None
        #: whether the session's thread computes, and whether what it computes is work: the model does not pause on purpose
        self._computes, self._works = False, True
        #: while both are so
        self._call: RunningCall | None = None

    # ---- called from an author's thread -------------------------------------------------------------------------------

    async def push_own(self, chunk: Chunk | None) -> None:
        """Queue a block of the session's thread, which waits.

        Its next block sees the commands that are applied meanwhile, and those before.
        """
        self.next_block = self._session.step
        self.watch(computes=False)
        try:
            if (boundary := self._session.boundary) is None:
                await self.push(chunk)
            elif boundary.holds:
                self.next_block -= 1  # this one has no number
                async with boundary.emitting(1):
                    await self.push(chunk)
            else:
                async with boundary.emitting(1 if chunk is None else chunk.length) as queued:
                    await self.push(chunk)
                    await self._session.resumes()
                    queued()
        finally:
            self.watch(computes=True)

    def block_begins(self) -> None:
        """The session's thread goes on: the block that it computes now sees every command that has been applied."""
        session = self._session
        self.next_block = None
        self._command, self._waited = session.newest_command, session.command_waited()

    async def push(self, chunk: Chunk | None) -> None:
        """Queue the block that was computed, or black frames (None). Several threads may wait here, each with its block."""
        session = self._session
        if session.boundary is not None and session.boundary.holds:
            await self._drop(chunk)
            return
        number, session.step = session.step - 1, session.step + 1
        if self.next_block is not None:
            self.next_block = session.step - 1
        command, waited = self._command, self._waited
        if chunk is None:
            await session.spend(number)
        else:
            await session.until_computed(chunk, number)
        origin = Origin(number, command, waited)
        if chunk is None:
            await self._pacer.push_black(origin)
        elif chunk.length:
            await self._pacer.push(chunk, origin)

    async def _drop(self, chunk: Chunk | None) -> None:
        """Drop a block from before the world at which the session begins."""
        session = self._session
        if chunk is None:
            await session.spend(session.step - 1)
        else:
            await session.until_computed(chunk, session.step - 1)
            session.output_pacer.dropped("buffer", "flushed", chunk.length)

    async def tell(self, type: str, data: Any) -> None:  # noqa: A002 - the wire's words
        """Send a message of the model to all clients."""
        await self._session.tell(type, data)

    async def monitor(self, enabled: bool) -> None:
        """Note that the model pauses on purpose, or works again."""
        self._pacer.monitor(enabled)
        self._works = enabled
        self.watch(computes=self._computes)

    # ---- for the driver -----------------------------------------------------------------------------------------------

    def watch(self, *, computes: bool) -> None:
        """Note whether the session's thread computes, and watch what it computes, as long as the session is not over."""
        session, self._computes = self._session, computes
        watched = computes and self._works and not session.over
        if watched and self._call is None:
            what = "start_session() has emitted nothing"
            self._call = session.calls.begins(what, trio.current_time(), self.session_thread.thread)
        elif not watched and self._call is not None:
            session.calls.ends(self._call)
            self._call = None
