"""Awaits author code and reports where it waits, and when a cancellation reaches it, before it does.

Trio resumes a task by sending it the value that it waited for; a cancellation is such a value, an `outcome.Error`. What the
code yields to Trio tells a checkpoint, which only lets others run, from a wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import Any, Protocol

import outcome
import trio


def _checkpoint_trap() -> Any:
    coroutine = trio.lowlevel.cancel_shielded_checkpoint()  # noqa: ASYNC105 - its first yield is wanted, not its end
    with closing(coroutine):
        return coroutine.send(None)


_CHECKPOINT = _checkpoint_trap()


class Observer(Protocol):
    """Receives the beginning and the end of each piece of author code between two awaits."""

    def resumes(self) -> None:
        """The code begins to run, or goes on."""

    def waits(self, *, checkpoint: bool) -> None:
        """The code lets others run. Unless that is a mere `checkpoint`, it waits for something."""

    def ends(self) -> None:
        """The code has ended."""


class TracedAwaitable:
    """Awaits `code`. Calls `cancelled` when a cancellation reaches it, and reports its awaits to `observer`."""

    def __init__(
        self,
        code: Awaitable[Any],
        cancelled: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
    ) -> None:
        self._code = code
        self._cancelled = cancelled
        self._observer = observer

    def __await__(self) -> Generator[Any, Any, Any]:
        code: Any = self._code.__await__()
        observer = self._observer
        resume: outcome.Maybe[Any] = outcome.Value(None)
        while True:
            if observer is not None:
                observer.resumes()
            try:
                wanted = resume.send(code)
            except BaseException as end:
                if observer is not None:
                    observer.ends()
                if isinstance(end, StopIteration):
                    return end.value
                raise
            if observer is not None:
                observer.waits(checkpoint=wanted is _CHECKPOINT)
            try:
                sent = yield wanted
            except BaseException as error:  # Trio throws an error at code that yields what it cannot wait for
                resume = outcome.Error(error)
            else:
                resume = outcome.Value(sent)
                if isinstance(sent, outcome.Error) and isinstance(sent.error, trio.Cancelled):
                    self._cancelled()
