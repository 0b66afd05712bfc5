"""Drivers: how author code of each kind is moved along, behind one interface.

A generator is asked for one yield at a time, with commands applied in between; a run loop moves by itself, and the driver
applies commands while it awaits. A driver is one task on the model loop and owns what it drives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

import outcome
import trio

from reactor_trio.interface.model import Idle
from reactor_trio.media import Origin, chunk_from_output
from reactor_trio.session.device_time import until_made

if TYPE_CHECKING:
    from reactor_trio.session.model_half import ModelHalf

DONE: Final = object()

#: Seconds an idle generator waits for the next command before it is asked again.
IDLE_WAIT = 0.02


class Driver(ABC):
    """Moves the author code of one session."""

    def __init__(self, half: ModelHalf) -> None:
        self._half = half

    @abstractmethod
    async def drive(self) -> None:
        """Run until cancelled; returns or raises only if author code ended the session."""

    @abstractmethod
    async def close(self) -> None:
        """End what is left of author code; shielded, with a deadline, by the caller."""

    def what_is_left(self) -> str:
        """What it still drives, in words; empty after `close`."""
        return ""


class GeneratorDriver(Driver):
    """`inference()` of a pipeline."""

    _steps: Generator[Any, None, None] | AsyncGenerator[Any, None] | None = None
    #: since when the model is busy without a step: handlers, this runtime; None while it is not, or a step is idle
    _between_since: float | None = None

    async def drive(self) -> None:
        """One step after the other; a generator that returned is followed by a new one."""
        half = self._half
        produced = False
        while (late := await self._until_next_step()) is not None:
            between = 0.0 if self._between_since is None else trio.current_time() - self._between_since
            self._between_since = None
            if self._steps is None:
                self._steps, produced = open_generator(half.model), False
            command, waited = half.newest_command, half.command_waited()
            output, seconds = await self._step()
            if output is DONE:
                self._steps = None
                if produced and half.once:
                    return
                if not produced:  # a generator that ends at once must not spin
                    await half.wait_for_command(trio.current_time() + IDLE_WAIT)
            elif output is None:
                await half.wait_for_command(trio.current_time() + IDLE_WAIT)
            else:
                produced = True
                await half.outflow.queue(output, late, seconds, between, Origin(half.step - 1, command, waited, seconds))
                self._between_since = trio.current_time()

    async def close(self) -> None:
        """Raise GeneratorExit at the yield; `finally` blocks run here."""
        steps, self._steps = self._steps, None
        if isinstance(steps, Generator):
            steps.close()
        elif steps is not None:
            await steps.aclose()

    def what_is_left(self) -> str:
        """The generator."""
        return "" if self._steps is None else "its generator is not closed"

    async def _until_next_step(self) -> float | None:
        """Apply commands as they come, until it is time for a step and none is pending; None when the session is over.

        Returns how long ago that time was, if it was waited for, in seconds.

        From the last look at the commands to the step nothing is awaited, so an acknowledged command is seen by it.
        """
        half, rested, planned = self._half, False, math.inf
        while True:
            at = half.outflow.step_at(now := trio.current_time())
            if at > now and not half.pending and not half.over:
                planned = at
                self._between_since = None
                await half.bell.wait(at)
                rested = True
                continue
            await half.host.time.settle(rested)
            rested = False
            applied = False
            while not half.over and await half.apply_next():
                applied = True
            if half.over:
                # The disconnect is on its way; it comes as a cancellation, unless author code has just swallowed that.
                await half.stopped.wait()
                return None
            if not applied and half.outflow.step_at(now := trio.current_time()) <= now and not half.pending:
                return max(0.0, now - planned)

    async def _step(self) -> tuple[Any, float]:
        """One resume: DONE, None for idle, or a Chunk; and the seconds of compute time."""
        half, steps, began = self._half, self._steps, trio.current_time()
        if isinstance(steps, Generator):
            value = next(steps, DONE)  # blocks this loop, on purpose: the thread is the model's
        else:
            assert steps is not None
            value = await _Watched(anext(steps, DONE), half.step_was_cancelled)
        if value is DONE or value is None or value is Idle:
            return (DONE if value is DONE else None), 0.0
        chunk = chunk_from_output(value, half.outputs)
        if chunk.length == 0:
            return None, 0.0
        await until_made(chunk)
        cost = await half.host.time.spend(half.step)
        half.step += 1
        return chunk, trio.current_time() - began if cost is None else cost


class RunLoopDriver(Driver):
    """The handlers of a `ReactorModel`, at any await of its `run()`, one at a time and in order."""

    async def drive(self) -> None:
        """Apply commands as they come."""
        half, rested = self._half, False
        while True:
            await half.host.time.settle(rested)
            if half.over:
                await trio.sleep_forever()  # what is left over is discarded
            rested = False
            if not await half.apply_next():
                await half.bell.wait()
                rested = True

    async def close(self) -> None:
        """`run()` goes on; there is nothing to close."""


class _Watched:
    """Awaits a step, and tells when a cancellation reaches it, before author code sees it.

    Trio resumes a task by sending what it waited for; a cancellation is an `outcome.Error` among these. From then on the
    step is cleaning up, and its own awaits in `finally` must be able to end.
    """

    def __init__(self, step: Awaitable[Any], cancelled: Callable[[], object]) -> None:
        self._step = step
        self._cancelled = cancelled

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Any = self._step.__await__()
        resume: outcome.Maybe[Any] = outcome.Value(None)
        while True:
            try:
                wanted = resume.send(step)
            except StopIteration as end:
                return end.value
            try:
                sent = yield wanted
            except BaseException as error:  # Trio throws what it cannot wait for back at its author
                resume = outcome.Error(error)
            else:
                resume = outcome.Value(sent)
                if isinstance(sent, outcome.Error) and isinstance(sent.error, trio.Cancelled):
                    self._cancelled()


def open_generator(model: Any) -> Generator[Any, None, None] | AsyncGenerator[Any, None]:
    """A new `inference()` of `model`. Raises TypeError if that is no generator."""
    steps = model.inference()
    if isinstance(steps, (Generator, AsyncGenerator)):
        return steps
    if hasattr(steps, "close"):
        steps.close()  # a coroutine that nobody awaits
    raise TypeError(f"inference() must be a generator or an async generator, it returned {type(steps).__name__}")
