"""A blocking model's session: `start_session()` on its own thread, handlers on another, the model loop between them.

    session thread   start_session() -> ctx.emit_block() -.
                                                          +-> model loop: step, rate, room -> channel
    handler thread   @command methods, hooks and on_frame(), one at a time  <---'

The model loop stays free, so it receives commands, the disconnect and the playout's reports while the author's code blocks.
`should_stop()` reads a flag and crosses nothing. What is emitted or sent after the end of the session is discarded.

Author code may keep its context, whose variables the handlers' thread runs in. The context knows the session and the blocks,
and not the driver, which knows the variables: so no object keeps itself.
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
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import AppliesCommands, Driver
from reactor_trio.interface.context import running
from reactor_trio.interface.declaration import BLOCKING_INPUT
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.interface.video_model import VideoModel
from reactor_trio.kinds.blocking_context import BlockingContext
from reactor_trio.kinds.emitted_blocks import EmittedBlocks


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
    emits_alone = True
    steps_ahead = 1  # the thread computes the first block before the session counts one

    def __init__(self, session: DrivenSession) -> None:
        super().__init__(session)
        self._blocks = EmittedBlocks(session)
        self._handler_thread = self._blocks.handler_thread
        self.call_handler, self.thread = HandlerCalls(self._handler_thread), self._handler_thread.thread
        self._model = cast(VideoModel, session.model)

    async def drive(self, commands: AppliesCommands) -> None:
        """Run `start_session` until it has returned, whatever is cancelled; what it raises is raised."""
        blocks = self._blocks
        self._session.step = self.steps_ahead  # the second block sees a command that comes while the first is computed
        context = BlockingContext(self._session, self._blocks)
        result: outcome.Maybe[None] = outcome.Value(None)
        with running(context) as variables, self.emits(commands) as apply_next:
            self.call_handler.variables = variables.copy
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._beside, self._apply_commands, apply_next)
                    for spec in context.inputs:
                        nursery.start_soon(self._beside, self._take_frames, spec, context, variables.copy)
                    blocks.watch(computes=True)
                    result = await outcome.acapture(blocks.session_thread.run, self._model.start_session, context=variables)
                    blocks.watch(computes=False)
                    nursery.cancel_scope.cancel()
            finally:
                context.close()
                result.unwrap()  # also if the session is over, and the nursery cancelled by that

    @property
    def next_block(self) -> int | None:  # type: ignore[override]
        """The number of the block that is the first to see a command that is applied now."""
        return self._blocks.next_block

    # ---- inside -------------------------------------------------------------------------------------------------------

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

    async def _apply_commands(self, apply_next: Callable[[], Awaitable[bool]]) -> None:
        await self.apply_commands(apply_next, lambda _rested: trio.lowlevel.checkpoint())  # noqa: ASYNC105 - it is awaited there

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
            call = partial(self._handler_thread.run, self._model.on_frame, frame.data, context=variables())
            await (call() if (boundary := self._session.boundary) is None else boundary.handle(call))
        except BaseException as error:
            if not is_failure(error):
                raise
            self._session.failures.unheard(error, "%s.on_frame() raised", type(self._model).__name__)
