"""Steps a `ReactorPipeline`: its `inference()` is a generator, and each step resumes it for one yield."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from types import GeneratorType
from typing import Any

from reactor_trio.errors import DeclarationError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.step_loop import DONE, StepMade, StepSource
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.interface.author_code import calls_plain_methods, defining_line, plain_step, this_thread, yielding_line
from reactor_trio.interface.declaration import is_generator_function
from reactor_trio.interface.model import ReactorPipeline

AuthorGenerator = Generator[Any, None, None] | AsyncGenerator[Any, None]


class GeneratorSource(StepSource):
    """The steps of one session's `inference()`. A generator that has returned is followed by a new one.

    Args:
        cancelled, observer: for the awaits of an async generator, see `TracedAwaitable`.

    Attributes:
        generator: the generator, None before its first step and after it has returned.
    """

    def __init__(self, cancelled: Callable[[], object] = lambda: None, observer: Observer | None = None) -> None:
        self.cancelled = cancelled
        self._observer = observer
        self.generator: AuthorGenerator | None = None

    @calls_plain_methods
    async def resume(self, model: Any) -> StepMade:
        """Resume the generator up to its next yield. Raises TypeError if `inference()` of `model` is no generator."""
        if self.generator is None:
            self.generator = open_generator(model)
        if type(self.generator) is GeneratorType or isinstance(self.generator, Generator):  # the latter costs three calls
            this_thread.plain_method = "inference"  # not by `plain_step`: a call less for each frame
            try:
                value = next(self.generator, DONE)  # blocks this loop, on purpose: the thread is the model's
            finally:
                this_thread.plain_method = ""
        else:
            step = anext(self.generator, DONE)
            value = await TracedAwaitable(step, self.cancelled, self._observer)
        if value is DONE:
            self.generator = None
            return DONE
        return StepMade(value)

    def location(self, model: Any) -> str:
        """The line of the newest yield."""
        return "" if self.generator is None else yielding_line(self.generator)

    async def close(self) -> None:
        """Raise GeneratorExit at the yield, so that `finally` blocks run."""
        generator, self.generator = self.generator, None
        if isinstance(generator, Generator):
            plain_step(generator.close)
        elif generator is not None:
            await TracedAwaitable(generator.aclose(), self.cancelled, self._observer)


def open_generator(model: Any) -> AuthorGenerator:
    """A new `inference()` of `model`. Raises TypeError if it is no generator."""
    steps = model.inference()
    if isinstance(steps, (Generator, AsyncGenerator)):
        return steps
    if hasattr(steps, "close"):
        steps.close()  # a coroutine that nothing awaits
    raise TypeError(f"inference() must be a generator or an async generator, it returned {type(steps).__name__}")


def open_source(session: DrivenSession | None) -> GeneratorSource:
    """Open the steps of a session; without one, no turn sees where the author code waits."""
    if session is None:
        return GeneratorSource()
    return GeneratorSource(session.scopes.step_was_cancelled, session.turn.observer)


def check(name: str, model: Any) -> None:
    """Refuse an `inference()` that is no generator."""
    if not is_generator_function(model.inference):
        at = defining_line(model.inference)
        if getattr(model.inference, "__module__", None) == ReactorPipeline.__module__:
            raise DeclarationError(f"{name} has no inference(): define it, with a `yield` for each frame", anchor="no-yield")
        wrong = f"there is no `yield` in {name}.inference, so it makes no frames: yield each one, as in `yield frame`"
        raise DeclarationError(f"{wrong} (at {at})", anchor="no-yield")
