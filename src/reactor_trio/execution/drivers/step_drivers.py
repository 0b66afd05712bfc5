"""Drivers: how the runtime moves author code of each kind along, behind one interface.

A generator is resumed for one yield at a time, and commands are applied in between. A run loop moves by itself, and its
driver applies commands while it awaits. A driver is one task on the model loop and owns what it drives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final, Literal

import trio

from reactor_trio.errors import OutputError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.drivers.dynamic_batcher import DynamicBatcher
from reactor_trio.execution.fences import wait_for_fences
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.interface.author_code import defining_line, plain_step, yielding_line
from reactor_trio.interface.model import Idle
from reactor_trio.media import Chunk, Origin, chunk_from_output

#: What a generator that has returned gives instead of a value.
DONE: Final = object()

#: Seconds for which a generator that yielded Idle waits for a command before it is resumed again.
IDLE_WAIT = 0.02

AuthorGenerator = Generator[Any, None, None] | AsyncGenerator[Any, None]


class Driver(ABC):
    """Moves the author code of one session.

    Attributes:
        generator: the author's generator; None before its first step, and after it has returned.
    """

    generator: AuthorGenerator | None = None

    def __init__(self, session: DrivenSession) -> None:
        self._session = session

    @abstractmethod
    async def drive(self) -> None:
        """Run until cancelled. Returns or raises only if author code ended the session."""

    async def apply_commands(self, settle: Callable[[bool], Awaitable[None]]) -> None:
        """Apply commands one at a time and in order, as they come, until cancelled.

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

    async def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to end
        """End what is left of author code. The caller shields it and sets a deadline."""

    async def at_boundary(self) -> None:  # noqa: B027 - other drivers have author code that may stop at any await
        """Return when author code of the session is at a place where its hooks may run."""

    def what_is_left(self) -> str:
        """What it still drives, in words; empty after `close`."""
        return ""


class RunLoopDriver(Driver):
    """Applies the commands of a `ReactorModel` one at a time and in order, at any await of its `run()`."""

    async def drive(self) -> None:
        """Apply commands as they come."""
        await self.apply_commands(self._session.host.time.settle)


class StepDriver(Driver):
    """Steps a pipeline, each step in a turn of its session."""

    #: since when the model is busy without a step: handlers, this runtime; None while it is not, or the step made no frame
    _between_since: float | None = None

    #: how long the next step has waited for the steps of other sessions, in seconds
    _turn_waited = 0.0

    #: whether the generator has made a frame
    _produced = False

    async def drive(self) -> None:
        """Make one step after the other."""
        session = self._session
        while (late := await self._until_next_step()) is not None:
            between = 0.0 if self._between_since is None else trio.current_time() - self._between_since - self._turn_waited
            self._between_since = None
            command, waited = session.newest_command, session.command_waited()
            call = session.calls.begins(f"step {session.step} has run")
            try:
                chunk, seconds = await self._step()
            finally:
                session.calls.ends(call)
            session.tell_values()
            if chunk is not None:
                session.output_pacer.stepped(chunk, late, seconds + self._turn_waited, between)
                await session.output_pacer.queue(chunk, Origin(session.step - 1, command, waited, seconds))
                self._between_since = trio.current_time()
                continue
            follows = self._after_no_frame()
            if follows == "end":
                return
            session.empty_steps += 1
            if follows == "rest":
                session.turn.give_back()
                await self._rest()

    @abstractmethod
    async def resume(self, model: Any) -> Any:
        """What the author's code of `model` gives for the next step; None, Idle or DONE for no frame."""

    @abstractmethod
    def _place(self) -> str:
        """`file:line` of the author's code that gave the newest step's value."""

    async def _rest(self) -> None:
        """Wait for the next step, after one that made no frame."""
        await self._session.wait_for_command(trio.current_time() + IDLE_WAIT)

    async def _apply_next(self) -> bool:
        """Apply the oldest pending command; False if none is pending."""
        return await self._session.apply_next()

    def _after_no_frame(self) -> Literal["rest", "step", "end"]:
        """What follows a step that made no frame."""
        return "rest"

    async def _until_next_step(self) -> float | None:
        """Apply commands as they come, until it is time for a step and none is pending; None when the session is over.

        Returns how long ago that time was, in seconds, if the model waited for it.

        From the last look at the commands to the step nothing is awaited, so the step sees each acknowledged command.
        """
        session, rested, planned = self._session, False, math.inf
        session.turn.give_back()  # that of the step before
        self._turn_waited = 0.0
        while True:
            at = session.output_pacer.step_at(now := trio.current_time())
            if at > now and not session.commands.pending(session.step) and not session.over:
                planned = at
                self._between_since, self._turn_waited = None, 0.0
                session.turn.give_back()
                await session.wakeup.wait(at)
                rested = True
                continue
            self._turn_waited += await session.turn.take(rested)
            rested = False
            applied = False
            while not session.over and await self._apply_next():
                applied = True
            if session.over:
                # The disconnect is on its way; it comes as a cancellation, unless author code has just swallowed that.
                session.turn.give_back()
                await session.stopped.wait()
                return None
            may_begin = not applied and session.output_pacer.step_at(now := trio.current_time()) <= now
            if may_begin and not session.commands.pending(session.step):
                return max(0.0, now - planned - self._turn_waited)

    async def _step(self) -> tuple[Chunk | None, float]:
        """Make one step: what it made, None for nothing, and its compute time in seconds."""
        session, began = self._session, trio.current_time()
        value = await self.resume(session.model)
        if value is None or value is Idle or value is DONE:
            return None, 0.0
        try:
            chunk = chunk_from_output(value, session.outputs, of_step=True)
        except OutputError as error:
            error.name_place(self._place())
            raise
        if chunk.length == 0:
            return None, 0.0
        seconds = await self._until_computed(chunk, began)
        session.step += 1
        self._produced = True
        return chunk, seconds

    async def _until_computed(self, chunk: Chunk, began: float) -> float:
        """Wait until devices have computed the chunk of a step that began at `began`; the seconds of the whole step."""
        _, cost = await self._session.until_computed(chunk, self._session.step)
        return trio.current_time() - began if cost is None else cost


class Steps:
    """The steps of one session's `inference()`. A generator that has returned is followed by a new one.

    Args:
        cancelled, observer: for the awaits of an async generator, see `TracedAwaitable`.

    Attributes:
        generator: the generator, None before its first step and after it has returned.
    """

    def __init__(self, cancelled: Callable[[], object] = lambda: None, observer: Observer | None = None) -> None:
        self._cancelled = cancelled
        self._observer = observer
        self.generator: AuthorGenerator | None = None

    async def resume(self, model: Any) -> Any:
        """What it yields next, or DONE. Raises TypeError if `inference()` of `model` is no generator."""
        if self.generator is None:
            self.generator = open_generator(model)
        if isinstance(self.generator, Generator):
            value = plain_step(next, self.generator, DONE)  # blocks this loop, on purpose: the thread is the model's
        else:
            step = anext(self.generator, DONE)
            value = await TracedAwaitable(step, self._cancelled, self._observer)
        if value is DONE:
            self.generator = None
        return value

    async def close(self) -> None:
        """Raise GeneratorExit at the yield, so that `finally` blocks run."""
        generator, self.generator = self.generator, None
        if isinstance(generator, Generator):
            plain_step(generator.close)
        elif generator is not None:
            await TracedAwaitable(generator.aclose(), self._cancelled, self._observer)


class GeneratorDriver(Steps, StepDriver):
    """Steps `inference()` of a pipeline."""

    def __init__(self, session: DrivenSession) -> None:
        StepDriver.__init__(self, session)
        Steps.__init__(self, session.scopes.step_was_cancelled, session.turn.observer)

    def what_is_left(self) -> str:
        """See `Driver`."""
        return "its generator is not closed" if self.generator is not None else ""

    def _place(self) -> str:
        return "" if self.generator is None else yielding_line(self.generator)

    def _after_no_frame(self) -> Literal["rest", "step", "end"]:
        """A generator that returns without a frame must not spin; another is followed by the next, or is the session."""
        if self.generator is not None or not self._produced:
            return "rest"
        self._produced = False
        return "end" if self._session.once else "step"


class BatchDriver(StepDriver):
    """Takes a pipeline's share of `batch_inference()`, which steps several sessions together."""

    def __init__(self, session: DrivenSession, batcher: DynamicBatcher) -> None:
        super().__init__(session)
        self._batcher = batcher
        self._batch_began = 0.0

    async def resume(self, model: Any) -> Any:
        """See `StepDriver`."""
        session = self._session
        output, self._batch_began = await self._batcher.join(session.turn, model, lambda: session.over)
        return output

    async def _until_computed(self, chunk: Chunk, began: float) -> float:
        """The whole batch has one cost, which `DynamicBatcher` has spent."""
        await wait_for_fences(chunk)
        return trio.current_time() - self._batch_began

    def _place(self) -> str:
        return defining_line(self._session.model.batch_inference)  # type: ignore[attr-defined]


def open_generator(model: Any) -> AuthorGenerator:
    """A new `inference()` of `model`. Raises TypeError if it is no generator."""
    steps = model.inference()
    if isinstance(steps, (Generator, AsyncGenerator)):
        return steps
    if hasattr(steps, "close"):
        steps.close()  # a coroutine that nothing awaits
    raise TypeError(f"inference() must be a generator or an async generator, it returned {type(steps).__name__}")
