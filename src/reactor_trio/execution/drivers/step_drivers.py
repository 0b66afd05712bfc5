"""Drivers: how author code of each kind is moved along, behind one interface.

A generator is asked for one yield at a time, with commands applied in between; a run loop moves by itself, and the driver
applies commands while it awaits. A driver is one task on the model loop and owns what it drives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

import trio

from reactor_trio.execution.drivers.device_fence import wait_for_fences
from reactor_trio.execution.drivers.dynamic_batcher import BatchTurn
from reactor_trio.execution.drivers.traced_awaitable import TracedAwaitable
from reactor_trio.interface.author_code import NamesPlace, defining_line, plain_step, yielding_line
from reactor_trio.interface.model import Idle
from reactor_trio.media import Chunk, Origin, chunk_from_output

if TYPE_CHECKING:
    from reactor_trio.execution.session_runner import SessionRunner

DONE: Final = object()

#: Seconds an idle generator waits for the next command before it is asked again.
IDLE_WAIT = 0.02


class Driver(ABC):
    """Moves the author code of one session."""

    def __init__(self, runner: SessionRunner) -> None:
        self._runner = runner

    @abstractmethod
    async def drive(self) -> None:
        """Run until cancelled; returns or raises only if author code ended the session."""

    @abstractmethod
    async def close(self) -> None:
        """End what is left of author code; shielded, with a deadline, by the caller."""

    def what_is_left(self) -> str:
        """What it still drives, in words; empty after `close`."""
        return ""

    @property
    def generator(self) -> Generator[Any, None, None] | AsyncGenerator[Any, None] | None:
        """The author's generator, if it drives one."""
        return None


class StepDriver(Driver):
    """A pipeline, one step after the other, each in a turn of this session."""

    #: since when the model is busy without a step: handlers, this runtime; None while it is not, or a step is idle
    _between_since: float | None = None

    #: how long the next step has waited for those of other sessions, in seconds
    _turn_waited = 0.0

    async def drive(self) -> None:
        """One step after the other."""
        runner = self._runner
        while (late := await self._until_next_step()) is not None:
            between = 0.0 if self._between_since is None else trio.current_time() - self._between_since - self._turn_waited
            self._between_since = None
            command, waited = runner.newest_command, runner.command_waited()
            runner.turn.steps()
            with runner.calls.running(f"step {runner.step} has run"):
                output, seconds = await self._step()
            runner.tell_values()
            if output is None and self._is_done():
                return
            if output is not None:
                origin = Origin(runner.step - 1, command, waited, seconds)
                await runner.output_pacer.queue(output, late, seconds + self._turn_waited, between, origin)
                self._between_since = trio.current_time()
                continue
            runner.empty_steps += 1
            if self._rests():
                runner.turn.give_back()
                await runner.wait_for_command(trio.current_time() + IDLE_WAIT)

    @abstractmethod
    async def _step(self) -> tuple[Chunk | None, float]:
        """What a step made, None for nothing; and the seconds of compute time."""

    @abstractmethod
    def _place(self) -> str:
        """`file:line` of the author's code that gave the newest step's value."""

    def _rests(self) -> bool:
        """Whether a step that made nothing is followed by a rest."""
        return True

    def _is_done(self) -> bool:
        """Whether a step that made nothing was the last."""
        return False

    async def _until_next_step(self) -> float | None:
        """Apply commands as they come, until it is time for a step and none is pending; None when the session is over.

        Returns how long ago that time was, if it was waited for, in seconds.

        From the last look at the commands to the step nothing is awaited, so an acknowledged command is seen by it.
        """
        runner, rested, planned = self._runner, False, math.inf
        self._turn_waited = 0.0
        while True:
            at = runner.output_pacer.step_at(now := trio.current_time())
            if at > now and not runner.pending and not runner.over:
                planned = at
                self._between_since, self._turn_waited = None, 0.0
                runner.turn.give_back()
                await runner.wakeup.wait(at)
                rested = True
                continue
            self._turn_waited += await runner.turn.take(rested)
            rested = False
            applied = False
            while not runner.over and await runner.apply_next():
                applied = True
            if runner.over:
                # The disconnect is on its way; it comes as a cancellation, unless author code has just swallowed that.
                runner.turn.give_back()
                await runner.stopped.wait()
                return None
            due = not applied and runner.output_pacer.step_at(now := trio.current_time()) <= now and not runner.pending
            if due and runner.turn.held:  # a handler that waited for something has given it back
                return max(0.0, now - planned - self._turn_waited)

    async def _made(self, value: Any, began: float) -> tuple[Chunk | None, float]:
        """A step begun at `began` gave `value`."""
        runner = self._runner
        if value is None or value is Idle:
            return None, 0.0
        with NamesPlace(self._place):
            chunk = chunk_from_output(value, runner.outputs)
        if chunk.length == 0:
            return None, 0.0
        cost = await self._compute(chunk)
        runner.step += 1
        return chunk, trio.current_time() - began if cost is None else cost

    async def _compute(self, chunk: Chunk) -> float | None:
        """Wait for what a device has still to do; the stated cost of the step."""
        runner = self._runner
        _, cost = await runner.turn.compute(runner.made, chunk, runner.step)
        return cost


class Steps:
    """`inference()` of one session; a generator that returned is followed by a new one.

    Args:
        watch: what an await of an async one goes through.
    """

    def __init__(self, watch: Callable[[Awaitable[Any]], Awaitable[Any]]) -> None:
        self._watch = watch
        self._generator: Generator[Any, None, None] | AsyncGenerator[Any, None] | None = None

    @property
    def open(self) -> bool:
        """Whether there is one."""
        return self._generator is not None

    @property
    def generator(self) -> Generator[Any, None, None] | AsyncGenerator[Any, None] | None:
        """The one that there is."""
        return self._generator

    @property
    def place(self) -> str:
        """`file:line` of the `yield` at which it has stopped; empty if there is none."""
        return "" if self._generator is None else yielding_line(self._generator)

    async def resume(self, model: Any) -> Any:
        """What it yields next, or DONE. Raises TypeError if `inference()` of `model` is no generator."""
        if self._generator is None:
            self._generator = open_generator(model)
        if isinstance(self._generator, Generator):
            value = plain_step(next, self._generator, DONE)  # blocks this loop, on purpose: the thread is the model's
        else:
            value = await self._watch(anext(self._generator, DONE))
        if value is DONE:
            self._generator = None
        return value

    async def close(self) -> None:
        """Raise GeneratorExit at the yield; `finally` blocks run here."""
        generator, self._generator = self._generator, None
        if isinstance(generator, Generator):
            plain_step(generator.close)
        elif generator is not None:
            await generator.aclose()


class GeneratorDriver(StepDriver):
    """`inference()` of a pipeline, one step after the other."""

    _produced = False

    def __init__(self, runner: SessionRunner) -> None:
        super().__init__(runner)
        self._steps = Steps(lambda code: TracedAwaitable(code, runner.step_was_cancelled, runner.turn.observer))

    async def close(self) -> None:
        """Raise GeneratorExit at the yield; `finally` blocks run here."""
        await self._steps.close()

    def what_is_left(self) -> str:
        """The generator."""
        return "its generator is not closed" if self._steps.open else ""

    @property
    def generator(self) -> Generator[Any, None, None] | AsyncGenerator[Any, None] | None:
        """That of `inference()`."""
        return self._steps.generator

    def _place(self) -> str:
        return self._steps.place

    def _rests(self) -> bool:
        """A generator that ends at once must not spin; another is followed by the next."""
        return self._steps.open or not self._produced

    def _is_done(self) -> bool:
        """A generator that has made something and returned may be the session."""
        return self._runner.once and not self._steps.open and self._produced

    async def resume(self) -> Any:
        """What the generator yields next, or DONE."""
        return await self._steps.resume(self._runner.model)

    async def _step(self) -> tuple[Chunk | None, float]:
        """One resume."""
        began = trio.current_time()
        if not self._steps.open:
            self._produced = False
        value = await self.resume()
        if value is DONE:
            return None, 0.0
        made = await self._made(value, began)
        self._produced = self._produced or made[0] is not None
        return made


class BatchDriver(StepDriver):
    """A pipeline's share of `batch_inference()`, which steps several sessions together."""

    async def close(self) -> None:
        """It keeps nothing."""

    def _place(self) -> str:
        return defining_line(self._runner.model.batch_inference)  # type: ignore[attr-defined]

    async def _step(self) -> tuple[Chunk | None, float]:
        """One output of a batch."""
        runner = self._runner
        assert isinstance(runner.turn, BatchTurn)
        value, began = await runner.turn.join(runner.model, lambda: runner.over)
        return await self._made(value, began)

    async def _compute(self, chunk: Chunk) -> float | None:
        """The batch as a whole has its cost."""
        await wait_for_fences(chunk)
        return None


class RunLoopDriver(Driver):
    """The handlers of a `ReactorModel`, at any await of its `run()`, one at a time and in order."""

    async def drive(self) -> None:
        """Apply commands as they come."""
        runner, rested = self._runner, False
        while True:
            await runner.host.time.settle(rested)
            if runner.over:
                await trio.sleep_forever()  # what is left over is discarded
            rested = False
            if not await runner.apply_next():
                await runner.wakeup.wait()
                rested = True

    async def close(self) -> None:
        """`run()` goes on; there is nothing to close."""


def open_generator(model: Any) -> Generator[Any, None, None] | AsyncGenerator[Any, None]:
    """A new `inference()` of `model`. Raises TypeError if that is no generator."""
    steps = model.inference()
    if isinstance(steps, (Generator, AsyncGenerator)):
        return steps
    if hasattr(steps, "close"):
        steps.close()  # a coroutine that nobody awaits
    raise TypeError(f"inference() must be a generator or an async generator, it returned {type(steps).__name__}")
