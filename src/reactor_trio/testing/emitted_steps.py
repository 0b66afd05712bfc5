"""`EmittedSteps`: author code that emits by itself, stepped by hand. Each step ends while the code stands in an emit.

So `assert_restores` captures and puts a world where a server does: inside the emit, which then returns (`EmitBoundary`).
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any, cast

import trio

from reactor_trio.concurrency.author_thread import AuthorThread
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.step_loop import DONE, StepMade, StepSource
from reactor_trio.interface.author_code import defining_line
from reactor_trio.interface.context import running
from reactor_trio.interface.declaration import Declaration, declaration_of
from reactor_trio.interface.model import Idle
from reactor_trio.kinds.blocking_context import BlockingContext
from reactor_trio.kinds.blocking_driver import HandlerCalls
from reactor_trio.offline.executor_binding import ExecutorBinding
from reactor_trio.testing.virtual_time import InlineTime

#: seconds of the model's time in which it must emit
WITHIN = 60.0


class EmittedSteps(StepSource):
    """The steps of one session.

    Args:
        code: the author's code, given these steps.
        cancelled: whether the session is over.
    """

    def __init__(self, code: Callable[[EmittedSteps], Awaitable[None]], cancelled: Callable[[], bool]) -> None:
        self.ending = trio.Event()
        #: of the code, where that is known
        self.frame: FrameType | None = None
        self._code = code
        self._over = cancelled
        self._scope = trio.CancelScope()
        self._begun = False
        self._ended = trio.Event()
        self._raised: BaseException | None = None
        self._output: Any = None
        self._stands = False
        self._changed = RepeatedEvent()

    @property
    def begun(self) -> bool:
        """Whether the code has begun, and stands in an emit."""
        return self._begun

    async def resume(self, model: Any) -> StepMade:
        """Let the emit return; returns what the next one has. Raises what the code raises."""
        if self._begun:
            self._let_go()
        else:
            self._begun = True
            trio.lowlevel.spawn_system_task(self._run)
        with trio.move_on_after(WITHIN) as limit:
            while not self._stands and not self._ended.is_set():
                await self._changed.wait()
        if limit.cancelled_caught:
            raise AssertionError(f"{type(model).__qualname__} has emitted nothing for {WITHIN:g} s")
        if self._ended.is_set():
            if self._raised is not None:
                raise self._raised
            return DONE
        return StepMade(self._output)

    def location(self, model: Any) -> str:
        """See `StepSource`."""
        return defining_line(model.run if hasattr(model, "run") else model.start_session)

    async def emit(self, output: Any) -> None:
        """Stand still until the next step, or until the session is over."""
        self._output, self._stands = output, True
        self._changed.set()
        while self._stands and not self._over():
            await self._changed.wait()

    async def close(self) -> None:
        """End the code: the session is over."""
        self.ending.set()
        if self._begun:
            self._let_go()
            self._scope.cancel()
            await self._ended.wait()

    def _let_go(self) -> None:
        self._output, self._stands = None, False
        self._changed.set()

    async def _run(self) -> None:
        with self._scope:
            try:
                await self._code(self)
            except trio.Cancelled:
                raise
            except BaseException as error:
                self._raised = error
        self._ended.set()
        self._changed.set()


class EmittingBinding(ExecutorBinding):
    """An `ExecutorBinding` of a model that emits: `steps` are those of its session."""

    steps: EmittedSteps | None = None

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """See `EmittedSteps`."""
        await trio.lowlevel.checkpoint()
        if self.steps is not None and not self.cancelled():
            await self.steps.emit(output)


class AuthorThreads:
    """The threads of a blocking model: they stand for its `ModelHost`, and for the `EmittedBlocks` of its session."""

    def __init__(self) -> None:
        time = InlineTime(None)
        time.attach(cast(Any, self), cast(Any, _SystemTasks()))  # it holds the clock while a thread computes
        self.session_thread = AuthorThread("reactor-session", time)
        self.handler_thread = AuthorThread("reactor-handlers", time)
        self.author_threads = self.session_thread, self.handler_thread
        self.steps: EmittedSteps
        self._outputs: Any = None
        self._running = ExitStack()

    def close(self) -> None:
        """End the threads."""
        self._running.close()
        for thread in self.author_threads:
            thread.close()

    def open(self, model: Any, binding: EmittingBinding, performer: Performer, steps: EmittedSteps) -> None:
        """Open the session of a model, whose handlers `performer` calls."""
        self.steps, self._outputs = steps, declaration_of(type(model)).outputs
        context = BlockingContext(cast(Any, _Session(model, binding, steps)), cast(Any, self))
        self._variables = self._running.enter_context(running(context))
        performer.call_handler = calls = HandlerCalls(self.handler_thread)
        calls.variables = self._variables.copy

    async def run(self, model: Any) -> None:
        """Run `start_session()`."""
        await self.session_thread.run(model.start_session, context=self._variables)

    # ---- as `EmittedBlocks` -------------------------------------------------------------------------------------------

    async def push_own(self, chunk: Any) -> None:
        """Emit a block of the session's thread."""
        output: Any = Idle
        if chunk is not None and chunk.length:
            audios = {name: samples for name, (samples, _) in chunk.audios.items()}
            output = self._outputs[0](**chunk.videos, **audios)
        frame = sys._current_frames().get(self.session_thread.thread.ident or 0)
        while frame is not None and frame.f_code.co_name != "start_session":
            frame = frame.f_back
        self.steps.frame = frame
        await self.steps.emit(output)

    async def push(self, _chunk: Any) -> None:
        """Drop what a handler emits: it is of no step."""
        await trio.lowlevel.checkpoint()

    async def tell(self, _type: str, _data: Any) -> None:
        """Drop a message."""
        await trio.lowlevel.checkpoint()

    async def monitor(self, _enabled: bool) -> None:
        """Do nothing: nothing is measured."""
        await trio.lowlevel.checkpoint()

    def block_begins(self) -> None:
        """Do nothing."""


class _Session:
    """What a `BlockingContext` asks its session."""

    def __init__(self, model: Any, binding: EmittingBinding, steps: EmittedSteps) -> None:
        self.model, self.ending = model, steps.ending
        self.declaration: Declaration = declaration_of(type(model))
        self.output_pacer = self
        self._binding = binding

    @property
    def over(self) -> bool:
        return self._binding.cancelled()

    def dropped(self, _place: str, _reason: str, _frames: int) -> None:
        """Of an `OutputPacer`."""


class _SystemTasks:
    """A nursery as far as `InlineTime` needs one."""

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        trio.lowlevel.spawn_system_task(function, *args)


