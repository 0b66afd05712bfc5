"""Awaits author code and sees what happens to it: where it waits, and when a cancellation reaches it, before it does.

Trio resumes a task by sending what it waited for; a cancellation is an `outcome.Error` among these. A checkpoint, which only
lets others run, is told apart from a wait by what is yielded to Trio for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import Any, Protocol

import outcome
import trio


def _checkpoint_word() -> Any:
    coroutine = trio.lowlevel.cancel_shielded_checkpoint()  # noqa: ASYNC105 - what it says to Trio is wanted, not its end
    with closing(coroutine):
        return coroutine.send(None)


_CHECKPOINT = _checkpoint_word()


class Observer(Protocol):
    """Is told of each piece of author code between two of its awaits."""

    def resumes(self) -> None:
        """It runs now, or goes on."""

    def waits(self, *, checkpoint: bool) -> None:
        """It lets others run; unless at a mere `checkpoint`, it waits for something."""

    def ends(self) -> None:
        """It is over."""


class TracedAwaitable:
    """Awaits `code`; `cancelled` is told when a cancellation reaches it, `observer` of all its awaits."""

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
            except BaseException as error:  # Trio throws what it cannot wait for back at its author
                resume = outcome.Error(error)
            else:
                resume = outcome.Value(sent)
                if isinstance(sent, outcome.Error) and isinstance(sent.error, trio.Cancelled):
                    self._cancelled()
