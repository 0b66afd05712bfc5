"""Awaits author code and reports where it waits, and when a cancellation reaches it, before it does.

Trio resumes a task by sending it the value that it waited for; a cancellation is such a value, an `outcome.Error`. What the
code yields to Trio tells a checkpoint, which only lets others run, from a wait. What only asyncio yields, None for
`asyncio.sleep(0)`, is a checkpoint here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import Any, Protocol

import outcome
import trio

from reactor_trio.concurrency.asyncio_calls import ASYNCIO_CALLS, running_loops


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
    """Awaits `code`, a coroutine of the author's, which finds `ASYNCIO_CALLS` as its asyncio loop.

    Calls `cancelled` when a cancellation reaches the code, and reports its awaits to `observer`.
    """

    def __init__(
        self,
        code: Awaitable[Any],
        cancelled: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
    ) -> None:
        self._code = code
        self._asyncio_calls = ASYNCIO_CALLS.get()
        self._cancelled = cancelled
        self._observer = observer

    def __await__(self) -> Generator[Any, Any, Any]:  # noqa: PLR0912 - `concurrency.stacks` finds `code` in this frame
        code: Any = self._code.__await__()
        observer = self._observer
        loops = running_loops(self._code)
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            if observer is not None:
                observer.resumes()
            loops = loops or running_loops()
            outer_loop = None if loops is None else loops._get_running_loop()  # a notebook's
            if loops is not None:
                loops._set_running_loop(self._asyncio_calls)
            try:
                wanted = code.send(sent) if thrown is None else code.throw(thrown)
            except BaseException as end:
                if observer is not None:
                    observer.ends()
                sent = thrown = None  # one may be, or hold, `end`, whose traceback holds this frame
                if isinstance(end, StopIteration):
                    return end.value
                raise
            finally:
                if loops is not None:
                    loops._set_running_loop(outer_loop)
            if observer is not None:
                observer.waits(checkpoint=wanted is _CHECKPOINT or wanted is None)
            sent = thrown = None
            try:
                if wanted is None:  # `asyncio.sleep(0)`
                    yield from trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105 - awaited so
                else:
                    sent = yield wanted
            except BaseException as error:  # Trio throws an error at code that yields what it cannot wait for
                if isinstance(error, trio.Cancelled):
                    self._cancelled()
                thrown = error
            else:
                if isinstance(sent, outcome.Error) and isinstance(sent.error, trio.Cancelled):
                    self._cancelled()
