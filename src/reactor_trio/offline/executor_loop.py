"""`ExecutorLoop`: the thread with a Trio loop on which `PipelineExecutor` runs author code, one call after the other.

The caller blocks meanwhile, so that there is never more than one call. One task runs all of them: an author may hold a
nursery open across a yield, and the task that enters a nursery must leave it.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from reactor_trio.concurrency import with_twin

T = TypeVar("T")


class ExecutorLoop:
    """A Trio loop in a thread. Its one task awaits one function after the other."""

    def __init__(self) -> None:
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="reactor-model", daemon=True)
        self._thread.start()
        self._started.result()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)` on the loop; block until it returns or raises."""
        if not self._thread.is_alive():
            raise RuntimeError("the executor is closed")
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._token.run_sync_soon(self._calls.send_nowait, (function, args, future))
        try:
            return future.result()
        except Exception as error:
            told = with_twin(error)
            if told is error:
                raise
            raise told from error

    def stop(self) -> None:
        """End the loop after the call in progress, and join its thread."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._calls.close)
            self._thread.join()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._calls, calls = trio.open_memory_channel[Any](1)
        self._started.set_result(None)
        while True:
            # Shielded: a nursery that author code holds open across a yield may cancel what this task awaits.
            with trio.CancelScope(shield=True):
                try:
                    function, args, future = await calls.receive()
                except trio.EndOfChannel:
                    return
            try:
                future.set_result(await function(*args))
            except BaseException as error:
                future.set_exception(error)
            del function, args, future
