"""`await asyncio.to_thread(...)` and `await asyncio.sleep(...)` in model code, which runs on Trio.

Public models for Reactor 3.x await these two. While a coroutine of model code runs, and only then, `AsyncioCalls` is the
running asyncio loop of the thread: asyncio's own functions find it and ask it for what they need. Its worker threads, its
clock and its cancellation are Trio's. Whatever else is asked for is refused at once, with an error that names the
replacement, so that an author's own `except` sees it too. Plain code of the model, such as a step that blocks, sees no loop,
so it may call `asyncio.run()`.

What asyncio's functions ask of a loop: `to_thread` awaits `run_in_executor(None, function)`. `sleep(t)` makes a future,
has `call_later` set its result, and awaits it. `sleep(0)` yields None to its loop, which `TracedAwaitable` turns into a
checkpoint. Source: CPython 3.11 to 3.13, `asyncio/threads.py` and `asyncio/tasks.py`.
"""

from __future__ import annotations

import contextvars
import importlib
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NoReturn

import trio

from reactor_trio.concurrency.asyncio_guard import no_asyncio

#: Runs a function in a worker thread and returns its result, as `trio.to_thread.run_sync` does.
RunInWorker = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]


def running_loops(code: object = None) -> Any:
    """Return the module that knows the running loops; None while this program does without asyncio (20 ms to import).

    `code`: a coroutine that is about to begin. If its own body names asyncio, it may import it.
    """
    names = getattr(getattr(code, "cr_code", None) or getattr(code, "ag_code", None), "co_names", ())
    if "asyncio" in names:
        importlib.import_module("asyncio")
    return sys.modules.get("_asyncio")  # of `asyncio.events` only what is not wrapped, see `nested_loops`


class AsyncioCalls:
    """What `asyncio.to_thread` and `asyncio.sleep` find as the running loop.

    Args:
        run_in_worker: runs a function in a worker thread; the test kit holds its clock meanwhile.

    Any other use raises AsyncioUsedError.
    """

    def __init__(self, run_in_worker: RunInWorker = trio.to_thread.run_sync) -> None:
        self._run_in_worker = run_in_worker

    def run_in_executor(self, executor: object, function: Callable[..., Any], *args: object) -> Awaitable[Any]:
        """Return an awaitable that runs `function(*args)` in a worker thread once it is awaited.

        Cancelled, it waits for the thread, as `trio.to_thread.run_sync` does. An executor of the author's is refused.
        """
        if executor is not None:
            raise no_asyncio("run_in_executor")
        return self._run_in_worker(lambda: function(*args))

    def time(self) -> float:
        """Return the time of Trio's loop, in seconds."""
        return trio.current_time()

    def create_future(self) -> _Sleep:
        """Return a future that can only be that of `asyncio.sleep`."""
        return _Sleep()

    def call_later(self, seconds: float, callback: object, *args: Any, context: object = None) -> _Sleep:
        """Let the future in `args` end with its result `seconds` after it is awaited."""
        wakes_sleeper = sys.modules["asyncio.futures"]._set_result_unless_cancelled
        if callback is not wakes_sleeper or not isinstance(args[0], _Sleep):
            raise no_asyncio("call_later")
        future: _Sleep = args[0]
        future.seconds, future.result = seconds, args[1]
        return future

    def __getattr__(self, name: str) -> NoReturn:
        raise no_asyncio(name)

    # `asyncio.current_task()` looks the loop up, would find no task, and return None
    def __hash__(self) -> int:
        raise no_asyncio()


#: of the code of this context
ASYNCIO_CALLS: contextvars.ContextVar[AsyncioCalls] = contextvars.ContextVar(
    "reactor_asyncio", default=AsyncioCalls()  # noqa: B039 - it never changes
)


class _Sleep:
    """The future of `asyncio.sleep`, and the handle of its timer."""

    seconds: float | None = None
    result: Any = None

    def __await__(self) -> Generator[Any, Any, Any]:
        if self.seconds is None:  # it belongs to an Event, a Queue or a Lock
            raise no_asyncio("Future")
        yield from trio.sleep(self.seconds).__await__()  # noqa: ASYNC105 - awaited so
        return self.result

    def cancel(self) -> None:
        """Do nothing: the sleep ends with the scope that cancels it."""

    def cancelled(self) -> bool:
        """A queue asks this of a future that it has been refused."""
        return True

    def __getattr__(self, name: str) -> NoReturn:
        raise no_asyncio("Future")
