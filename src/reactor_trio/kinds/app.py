"""Steps a `ReactorApp`: `process_input`, `generate`, `process_output`, one after the other in one task.

Commands and hooks never run inside a step. Commands are applied between two steps by the same task. The one other task that
calls author code, the session's end, first waits for `Driver.at_boundary`; so a step that has begun is finished.

A refused step (`ApplicationError`) waits like a generator that yielded `Idle`: for a command, an input frame, or 20 ms.
After a step without media the next one begins no sooner than 5 ms after it began, so an app without output does not spin.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.step_loop import StepMade, StepSource
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.interface.app import ReactorApp
from reactor_trio.interface.author_code import defining_line, plain_step
from reactor_trio.interface.steps import ApplicationError, StepCompleted, StepOutcome

log = logging.getLogger("reactor_trio.model")


async def no_cost() -> float | None:
    """The cost of a step where none is stated: the time that it takes."""
    return None


class AppSource(StepSource):
    """The steps of one session's app.

    Args:
        cancelled, observer: for the awaits of the app, see `TracedAwaitable`.
        spend: takes the time that a test or a rendering states for the step, after `generate`; returns it in seconds, None
            without one.
    """

    whole_steps = True

    def __init__(
        self,
        cancelled: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
        spend: Callable[[], Awaitable[float | None]] = no_cost,
    ) -> None:
        self.cancelled = cancelled
        self._observer = observer
        self._spend = spend
        self._refused: str | None = None  # why, in the newest step

    async def resume(self, model: Any) -> StepMade:
        """Make a step: `process_input`, `generate`, `process_output`."""
        began = trio.current_time()
        try:
            given = await self._await(model.process_input, "process_input")
        except ApplicationError as refusal:
            if self._refused != (reason := str(refusal)):
                self._refused = reason
                log.debug("process_input() refuses a step: %s", reason or type(refusal).__name__)
            return StepMade(refused=reason)
        self._refused = None
        outcome = await self._generate(model, given)
        try:
            made = await self._await(model.process_output, "process_output", outcome)
        except ApplicationError as error:
            error.add_note("An ApplicationError refuses a step only where process_input() raises it.")
            raise
        if isinstance(made, StepCompleted):
            if made.files or made.error is not None:
                log.debug("a step is completed with the error %r and the files %s", made.error, list(made.files))
            made = made.output
        return StepMade(made, "empty", began, outcome)

    def location(self, model: Any) -> str:
        """The line that defines the method that makes the media."""
        own = type(model).process_output is not ReactorApp.process_output
        return defining_line(model.process_output if own else model.generate)

    async def _generate(self, model: Any, given: Any) -> StepOutcome:
        result: Any = None
        error: Exception | None = None
        began = trio.current_time()
        try:
            result = plain_step(model.generate, given, method="generate")  # blocks this loop: the thread is the model's
            if isinstance(result, CoroutineType):
                result.close()
                raise TypeError("generate() must be a plain method, `def generate(self, input)`; it returned a coroutine")
        except Exception as raised:
            error = raised
        spent = await self._spend()
        elapsed = trio.current_time() - began if spent is None else spent
        return StepOutcome(None if error is not None else result, error, elapsed)

    async def _await(self, method: Callable[..., Any], name: str, *args: Any) -> Any:
        code = method(*args)
        if not (isinstance(code, CoroutineType) or inspect.isawaitable(code)):
            raise TypeError(f"{name}() must be async, `async def {name}`; it returned {type(code).__name__}")
        return await TracedAwaitable(code, self.cancelled, self._observer)


def open_source(session: DrivenSession | None) -> AppSource:
    """Open the steps of a session; without one, each takes the time that it takes."""
    if session is None:
        return AppSource()

    async def spend() -> float | None:
        return await session.turn.compute(session.spend, session.step)

    stated = no_cost if session.host.time.costs is None else spend
    return AppSource(session.scopes.step_was_cancelled, session.turn.observer, stated)
