"""Steps a `ReactorApp`: `process_input`, `generate`, `process_output`, one after the other in one task.

Commands and hooks never run inside a step. Commands are applied between two steps by the same task. The one other task that
calls author code, the session's end, first waits for `at_boundary`; so a step that has begun is finished.

A refused step (`ApplicationError`) waits like a generator that yielded `Idle`: for a command, an input frame, or 20 ms.
After a step without media the next one begins no sooner than 5 ms after it began, so an app without output does not spin.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Literal

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.drivers.step_drivers import AuthorGenerator, StepDriver
from reactor_trio.execution.fences import wait_for_fences
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.interface.app import ReactorApp
from reactor_trio.interface.author_code import defining_line, plain_step
from reactor_trio.interface.model import Idle
from reactor_trio.interface.steps import ApplicationError, StepCompleted, StepOutcome
from reactor_trio.media import Chunk

log = logging.getLogger("reactor_trio.model")

#: Seconds between the begins of two steps at least, if the first made no media.
EMPTY_STEP = 0.005


class AppSteps:
    """The steps of one session's app.

    Args:
        cancelled, observer: for the awaits of the app, see `TracedAwaitable`.

    Attributes:
        outcome: what the newest `generate` came to; None before the first.
        refusal: the text of the ApplicationError that refused the newest step; None if that was not refused.
        generator: None; an app has none.
    """

    generator: AuthorGenerator | None = None

    def __init__(
        self,
        cancelled: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
    ) -> None:
        self._cancelled = cancelled
        self._observer = observer
        self.outcome: StepOutcome | None = None
        self.refusal: str | None = None

    async def resume(self, model: Any) -> Any:
        """Make a step of `model`: its media, None if it made none, Idle if it was refused. Raises what ends the session."""
        try:
            given = await self._await(model.process_input, "process_input")
        except ApplicationError as refusal:
            if self.refusal != (reason := str(refusal)):
                self.refusal = reason
                log.debug("process_input() refuses a step: %s", reason or type(refusal).__name__)
            return Idle
        self.refusal = None
        self.outcome = outcome = await self._generate(model, given)
        try:
            made = await self._await(model.process_output, "process_output", outcome)
        except ApplicationError as error:
            error.add_note("An ApplicationError refuses a step only where process_input() raises it.")
            raise
        if not isinstance(made, StepCompleted):
            return made
        if made.files or made.error is not None:
            log.debug("a step is completed with the error %r and the files %s", made.error, list(made.files))
        return made.output

    async def close(self) -> None:
        """Do nothing: nothing of an app is left open between two steps."""

    async def _spend(self) -> float | None:
        """Take the time that a test states for the step, after `generate`; return it in seconds, None without one."""
        return None

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
        return await TracedAwaitable(code, self._cancelled, self._observer)


def media_line(model: Any) -> str:
    """Return `file:line` of the method of the author that makes the media of a step."""
    own = type(model).process_output is not ReactorApp.process_output
    return defining_line(model.process_output if own else model.generate)


class AppDriver(AppSteps, StepDriver):
    """Steps a `ReactorApp`."""

    def __init__(self, session: DrivenSession) -> None:
        StepDriver.__init__(self, session)
        AppSteps.__init__(self, session.scopes.step_was_cancelled, session.turn.observer)
        self._inside = False  # a step or a handler
        self._boundary: trio.Event | None = None  # set at the next boundary, for the end of the session, which waits for it
        self._began = 0.0

    async def at_boundary(self) -> None:
        """See `Driver`."""
        while self._inside:
            self._boundary = trio.Event()
            await self._boundary.wait()

    async def _apply_next(self) -> bool:
        self._inside = True
        try:
            return await super()._apply_next()
        finally:
            self._leave()

    async def _step(self) -> tuple[Chunk | None, float]:
        self._inside, self._began = True, trio.current_time()
        try:
            return await super()._step()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._inside = False
        if self._boundary is not None:
            self._boundary.set()

    async def _until_computed(self, chunk: Chunk, began: float) -> float:
        """The cost of the step is spent after `generate`."""
        await wait_for_fences(chunk)
        return trio.current_time() - began

    async def _spend(self) -> float | None:
        session = self._session
        return await session.turn.compute(session.host.time.spend, session.step)

    async def _rest(self) -> None:
        if self.refusal is not None:
            await super()._rest()
        else:
            await trio.sleep_until(self._began + EMPTY_STEP)

    def _after_no_frame(self) -> Literal["rest", "step", "end"]:
        if self.refusal is None:  # a step without media is one, too
            self._session.output_pacer.permit.ended()
        return "rest"

    def _place(self) -> str:
        return media_line(self._session.model)
