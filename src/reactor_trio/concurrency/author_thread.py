"""`AuthorThread`: one thread for author code that blocks by design, such as the session function of a blocking model.

It is always the same thread, so that thread-local state of torch and CUDA stays valid. It runs one job at a time. A job
cannot be interrupted and is never abandoned: the task that awaits it waits for its end, even if cancelled.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import outcome
import trio

from reactor_trio.concurrency.clock_hooks import ClockHooks

T = TypeVar("T")

#: Some platforms give threads a stack of half a megabyte. Model code expects as much as the main thread has.
_STACK_BYTES = 16 * 2**20


def start_thread(name: str, target: Callable[[], None]) -> threading.Thread:
    """Start a thread for model code. A daemon: a forward that never returns must not keep the process alive."""
    before = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    return thread


class AuthorThread:
    """A thread that lives from construction to `close`, and belongs to the Trio loop that made it.

    `run` is for tasks of that loop, `call_loop` for any other thread.
    """

    def __init__(self, name: str, time: ClockHooks) -> None:
        self._settle, self._hooks = time.settle, time.author_threads
        self._token = trio.lowlevel.current_trio_token()
        self._free = trio.Lock()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], trio.lowlevel.Task] | None] = queue.SimpleQueue()
        self.thread = start_thread(name, self._work)

    async def run(self, function: Callable[..., T], *args: Any, context: contextvars.Context | None = None) -> T:
        """Call `function(*args)` on the thread. Returns its value or raises its exception. Ignores cancellation."""
        call = partial((context or contextvars.copy_context()).run, function, *args)
        with trio.CancelScope(shield=True):
            await self._free.acquire()  # a job that waits here does not compute, which the hooks would take it for
        try:
            return await self._run(call)
        finally:
            self._free.release()

    def call_loop(
        self, function: Callable[..., Awaitable[T]], *args: Any, resumed: Callable[[], object] = lambda: None
    ) -> T:
        """Await `function(*args)` on the loop, from any other thread. Raises trio.RunFinishedError if the loop has ended.

        `resumed` is called on the loop just before this thread goes on.
        """
        on_thread = threading.current_thread() is self.thread

        async def crossing() -> T:
            if not on_thread:
                return await function(*args)
            if self._hooks is not None:
                self._hooks.author_rests()
            try:
                return await function(*args)
            finally:
                await self._settle(False)
                if self._hooks is not None:
                    await self._hooks.author_resumes()
                resumed()

        return trio.from_thread.run(crossing, trio_token=self._token)

    def close(self) -> None:
        """End the thread after the jobs that it has."""
        self._jobs.put(None)

    async def _run(self, call: Callable[[], T]) -> T:
        if self._hooks is not None:
            await self._hooks.author_resumes()
        self._jobs.put((call, trio.lowlevel.current_task()))
        try:
            value: T = await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: trio.lowlevel.Abort.FAILED)
            return value
        finally:
            if self._hooks is not None:
                self._hooks.author_rests()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(*job)
            del job  # with all that the session has; the next job may be long in coming

    def _do(self, call: Callable[[], Any], task: trio.lowlevel.Task) -> None:
        result = outcome.capture(call)
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(trio.lowlevel.reschedule, task, result)
