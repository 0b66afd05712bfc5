"""One thread for author code that blocks by design: the session function of a blocking model, or its handlers.

Always the same thread, so that thread-local state of torch and CUDA holds; one job at a time. A job cannot be interrupted
and is never abandoned: whoever awaits it waits for its end, also when cancelled.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import outcome
import trio

from reactor_trio.concurrency.clock_hooks import ClockHooks

T = TypeVar("T")

_Job = Callable[[], object]

#: Python gives helper threads of some platforms half a megabyte; model code expects what the main thread has.
_STACK_BYTES = 16 * 2**20


def start_thread(name: str, target: Callable[[], None]) -> threading.Thread:
    """A thread for model code. A daemon: a forward that never returns must not keep a process alive that was told to go."""
    before = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    return thread


class AuthorThread:
    """The thread lives from construction to `close`. `run` and `rest` are for the loop it was made on."""

    def __init__(self, name: str, time: ClockHooks) -> None:
        self._time = time
        self._token = trio.lowlevel.current_trio_token()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = start_thread(name, self._work)

    async def run(self, function: Callable[..., T], *args: Any, context: contextvars.Context | None = None) -> T:
        """Call `function(*args)` on the thread; its value or exception. Not to be cancelled."""
        task, context = trio.lowlevel.current_task(), context or contextvars.copy_context()

        def job() -> None:
            result = outcome.capture(context.run, function, *args)
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(trio.lowlevel.reschedule, task, outcome.Value(result))

        await self._time.author_resumes()
        self._jobs.put(job)
        result = await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: trio.lowlevel.Abort.FAILED)
        self._time.author_rests()
        value: T = result.unwrap()
        return value

    def call_loop(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """From any thread but the loop's: await `function(*args)` there. Raises trio.RunFinishedError."""
        on_thread = threading.current_thread() is self.thread

        async def crossing() -> T:
            if not on_thread:
                return await function(*args)
            self._time.author_rests()
            try:
                return await function(*args)
            finally:
                await self._time.settle(rested=False)
                await self._time.author_resumes()

        return trio.from_thread.run(crossing, trio_token=self._token)

    def close(self) -> None:
        """Let the thread end after the jobs it has."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
