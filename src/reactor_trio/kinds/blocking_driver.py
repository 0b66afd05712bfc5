"""A blocking model's session: `start_session()` on its own thread, handlers on another, the model loop between them.

    session thread   start_session() -> ctx.emit_block() -.
                                                          +-> model loop: step, rate, room -> channel
    handler thread   @command methods, hooks and on_frame(), one at a time  <---'

The model loop stays free, so it receives commands, the disconnect and the playout's reports while the author's code blocks.
`should_stop()` reads a flag and crosses nothing. What is emitted or sent after the end of the session is discarded.

A block is what the author computes between two emits. What it is made of is not known until it is pushed, so it gets its
number then, with the command that it may have seen for certain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, cast

import outcome
import trio

from reactor_trio.concurrency.author_thread import AuthorThread
from reactor_trio.errors import BufferClosed
from reactor_trio.execution.author_failures import is_failure
from reactor_trio.execution.call_monitor import RunningCall
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import AppliesCommands, Driver
from reactor_trio.interface.context import running
from reactor_trio.interface.declaration import BLOCKING_INPUT
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.interface.video_model import VideoModel
from reactor_trio.kinds.block_pacer import BlockPacer
from reactor_trio.kinds.blocking_context import BlockingContext
from reactor_trio.media import Chunk, Origin


class HandlerCalls:
    """Calls handlers and hooks on their thread.

    Attributes:
        variables: gives the context variables of a call.
    """

    variables: Callable[[], Context] = staticmethod(copy_context)

    def __init__(self, thread: AuthorThread) -> None:
        self._thread = thread

    async def __call__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call the function on the thread. (A closure would be kept by the exception that it lets through.)"""
        return await self._thread.run(partial(function, **arguments), context=self.variables())


class BlockingDriver(Driver):
    """Runs `start_session()` of a `VideoModel`; its end is the session's."""

    call_handler: HandlerCalls
    steps_ahead = 1  # the thread computes the first block before the session counts one

    def __init__(self, session: DrivenSession, commands: AppliesCommands) -> None:
        super().__init__(session, commands)
        self.session_thread, self.handler_thread = session.host.author_threads
        self.call_handler, self.thread = HandlerCalls(self.handler_thread), self.handler_thread.thread
        self._model = cast(VideoModel, session.model)
        self._pacer = cast(BlockPacer, session.output_pacer)
        # of the block that the session's thread computes now
        self._command: int | None = None
        self._waited: float | None = None
        #: whether the session's thread computes, and whether what it computes is work: the model does not pause on purpose
        self._computes, self._works = False, True
        #: while both are so
        self._call: RunningCall | None = None

    async def drive(self) -> None:
        """Run `start_session` until it has returned, whatever is cancelled; what it raises is raised."""
        self._session.step = self.steps_ahead  # the second block sees a command that comes while the first is computed
        context = BlockingContext(self._session, self)
        result: outcome.Maybe[None] = outcome.Value(None)
        with running(context) as variables:
            self.call_handler.variables = variables.copy
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._beside, self._apply_commands)
                    for spec in context.inputs:
                        nursery.start_soon(self._beside, self._take_frames, spec, context, variables.copy)
                    self._watch(computes=True)
                    result = await outcome.acapture(self.session_thread.run, self._model.start_session, context=variables)
                    self._watch(computes=False)
                    nursery.cancel_scope.cancel()
            finally:
                context.close()
                result.unwrap()  # also if the session is over, and the nursery cancelled by that

    def release(self) -> None:
        """Let go of the calls of handlers, too."""
        super().release()
        del self.call_handler

    # ---- on the model loop, called from an author's thread ------------------------------------------------------------

    async def push_own(self, chunk: Chunk | None) -> None:
        """Queue a block of the session's thread, which waits.

        Its next block sees the commands that are applied meanwhile, and those before.
        """
        self.next_block = self._session.step
        self._watch(computes=False)
        try:
            await self.push(chunk)
        finally:
            self._watch(computes=True)

    def block_begins(self) -> None:
        """The session's thread goes on: the block that it computes now sees every command that has been applied."""
        session = self._session
        self.next_block = None
        self._command, self._waited = session.newest_command, session.command_waited()

    async def push(self, chunk: Chunk | None) -> None:
        """Queue the block that was computed, or black frames (None). Several threads may wait here, each with its block."""
        session = self._session
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

    async def tell(self, type: str, data: Any) -> None:  # noqa: A002 - the wire's words
        """Send a message of the model to all clients."""
        await self._session.tell(type, data)

    async def monitor(self, enabled: bool) -> None:
        """Note that the model pauses on purpose, or works again."""
        self._pacer.monitor(enabled)
        self._works = enabled
        self._watch(computes=self._computes)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _watch(self, *, computes: bool) -> None:
        """Note whether the session's thread computes, and watch what it computes, as long as the session is not over."""
        session, self._computes = self._session, computes
        watched = computes and self._works and not session.over
        if watched and self._call is None:
            what = "start_session() has emitted nothing"
            self._call = session.calls.begins(what, trio.current_time(), self.session_thread.thread)
        elif not watched and self._call is not None:
            session.calls.ends(self._call)
            self._call = None

    async def _beside(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Task: what runs beside the session's thread. What it raises ends the session.

        No cancellation ends that thread, so the session leaves its client: `should_stop()` becomes true.
        """
        session = self._session
        try:
            await work(*args)
        except trio.Cancelled:
            raise
        except BaseException as error:
            session.failures.of_driving(error, session.over)
            session.end()

    async def _apply_commands(self) -> None:
        await self.apply_commands(lambda _rested: trio.lowlevel.checkpoint())  # noqa: ASYNC105 - it is awaited there

    async def _take_frames(self, spec: TrackSpec, context: BlockingContext, variables: Callable[[], Any]) -> None:
        buffer: InputBuffer = getattr(getattr(self._model, BLOCKING_INPUT), spec.name)
        with suppress(BufferClosed):
            while True:
                (frame,) = await buffer.read(mode=ReadMode.FIFO)
                context.newest[spec.name] = frame.data
                if spec.kind == "video" and type(self._model).on_frame is not VideoModel.on_frame:
                    await self._on_frame(frame, variables)

    async def _on_frame(self, frame: InputFrame, variables: Callable[[], Any]) -> None:
        try:
            await self.handler_thread.run(self._model.on_frame, frame.data, context=variables())
        except BaseException as error:
            if not is_failure(error):
                raise
            self._session.failures.unheard(error, "%s.on_frame() raised", type(self._model).__name__)
