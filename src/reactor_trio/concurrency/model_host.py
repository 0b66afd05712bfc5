"""The seam between the I/O loop (sockets, pacing) and the model loop (all author code).

Reactor's page on `inference()` calls a blocking forward straight from `async def inference`. So author code runs on a Trio
loop of its own in a thread of its own, where it may block as it likes: load, steps, handlers, hooks, `run()` and the closing
of generators all happen there, so thread-local state of torch and CUDA holds.

Two placements. "thread": `_main` is run by `trio.run` on that thread. "inline", for tests in virtual time: the very same
`_main` is a task of the loop that opened the host. Nothing else knows which; every crossing uses `run_sync_soon`, also
when both ends are one loop, so an inline test exercises the crossing itself.

Invariants
 1. Every object has one home loop. The other loop changes it only by posting a plain function to that home.
 2. A posted function never raises (Trio would kill the loop with TrioInternalError), and posts are first in, first out.
 3. `run` returns only when its model-side task is gone: nothing is abandoned, so never two sessions in one model.
 4. Cancellation crosses once, as a flag that any thread sees at once and as `scope.cancel` posted; `Cancelled` itself
    never crosses, in either direction.
 5. Both loops read one clock, so `trio.current_time()` means the same in author code and in the pacer.
 6. The host is the outermost block and its supervisor is shielded: sessions unwind through a loop that is still there.
 7. A forward that never returns cannot be ended, only reported (`stack`) and left behind by the process.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import outcome
import trio

from reactor_trio.concurrency.author_thread import AuthorThread, start_thread
from reactor_trio.concurrency.clock_hooks import ClockHooks
from reactor_trio.concurrency.failure_log import FailureLog
from reactor_trio.concurrency.observer import ExecutionObserver
from reactor_trio.concurrency.stacks import await_stack, runs_now, thread_stack

T = TypeVar("T")


class HostClosed(RuntimeError):
    """The model loop is gone, or going: it takes no more work."""


class SessionOver(BaseException):
    """Raised by `check_cancelled()` in model code; a BaseException, so that `except Exception` in a forward lets it pass."""


def strip(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    """What is left of an exception or group without these kinds; a nursery wraps even GeneratorExit in a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)[1]
    return None if isinstance(error, kinds) else error


class Call:
    """One model-side task. Its scope lives on the model loop; the flag may be read from any thread at any time."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.cancel_requested = False


_CALL: contextvars.ContextVar[Call] = contextvars.ContextVar("reactor_call")


def current_call() -> Call:
    """The model-side task that this code runs in; carried into tasks and worker threads that author code starts."""
    return _CALL.get()


class ModelHost:
    """Runs author code. I/O side: `run`, `post`, `stack`. Model side: `post_io`, `time`."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        #: model loop: logs exceptions of author code that end no session
        self.failures = FailureLog()
        #: told of sessions, and of what author code raises that no client is told
        self.observer = ExecutionObserver()
        #: model-side tasks that run now, for leak checks
        self.live_calls = 0
        self._thread: threading.Thread | None = None
        self._author_threads: tuple[AuthorThread, AuthorThread] | None = None

    @property
    def thread(self) -> threading.Thread | None:
        """The model thread, None if the model loop is a task."""
        return self._thread

    def post(self, function: Callable[..., object], *args: object) -> None:
        """I/O loop to model loop; returns at once. `function` must not raise; nothing happens if that loop has ended."""
        self._post(function, *args)

    def post_io(self, function: Callable[..., object], *args: object) -> None:
        """Model loop, or any thread, to I/O loop; returns at once. `function` must not raise."""
        with suppress(trio.RunFinishedError):
            self._io.run_sync_soon(function, *args)

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """From the I/O loop: await `function(*args)` on the model loop, as a child of the calling task.

        Value, exception and context cross. Cancelling the caller cancels the child, and `run` still waits until it has
        unwound; a value or error that the child ends with all the same is returned. Raises HostClosed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        assert trio.lowlevel.current_trio_token() is self._io, "run() is for the I/O loop: the answer is delivered there"
        task, call, context = trio.lowlevel.current_task(), Call(), contextvars.copy_context()
        raise_cancel: Callable[[], Any] | None = None

        async def body() -> None:
            _CALL.set(call)
            result: outcome.Maybe[T] | None = None
            try:
                with call.scope:
                    result = outcome.Value(await function(*args))
            except BaseException as error:
                # A Cancelled that our scope did not absorb belongs to the model loop, not to the caller.
                result = outcome.Error(strip(error, trio.Cancelled) or HostClosed("the model loop shut down"))
            answer(result)

        def answer(result: outcome.Maybe[T] | None) -> None:
            self.post_io(trio.lowlevel.reschedule, task, outcome.Value(result))

        def start() -> None:
            try:
                context.run(self._nursery.start_soon, body)
            except RuntimeError:  # the nursery is closed, and a posted function must not raise
                answer(outcome.Error(HostClosed("the model loop no longer takes work")))

        def abort(raise_: Callable[[], Any]) -> trio.lowlevel.Abort:
            nonlocal raise_cancel
            raise_cancel, call.cancel_requested = raise_, True
            self.post(call.scope.cancel)
            return trio.lowlevel.Abort.FAILED

        if not self._post(start):
            raise HostClosed("the model loop has ended")
        self.live_calls += 1
        try:
            result = await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            self.live_calls -= 1
        if result is not None:
            value: T = result.unwrap()
            return value
        assert raise_cancel is not None
        raise_cancel()
        raise AssertionError("raise_cancel returned")  # pragma: no cover

    @property
    def author_threads(self) -> tuple[AuthorThread, AuthorThread]:
        """Model loop: the thread of a blocking model's sessions, and that of its handlers; they end with the host."""
        if self._author_threads is None:
            session, handlers = (AuthorThread(f"reactor-{job}", self.time) for job in ("session", "handlers"))
            self._author_threads = session, handlers
        return self._author_threads

    @property
    def opened_author_threads(self) -> tuple[AuthorThread, ...]:
        """Those that there are."""
        return self._author_threads or ()

    def runs(self, task: trio.lowlevel.Task) -> bool:
        """Whether the model loop is in this task of it now, and blocked if that lasts; False if the loop has no thread."""
        return runs_now(task, self._thread)

    def stack(self, task: trio.lowlevel.Task | None = None, thread: threading.Thread | None = None) -> str:
        """Where the model's code is now, without the runtime's lines before it; empty if none runs.

        Args:
            task: of the model loop; if author code waits in it, where it does.
            thread: one of `author_threads`. With neither: the thread of a blocking model's sessions, if there is one.
        """
        if task is not None and not self.runs(task) and (waits := await_stack(task)):
            return waits
        if task is None and thread is None and (authors := self.opened_author_threads):
            thread = authors[0].thread
        return thread_stack(thread or self._thread)

    def close(self) -> None:
        """Let the model loop end once it has nothing left to do, and the author's threads with it."""
        for author in self.opened_author_threads:
            author.close()
        self._post(self._stop.set)

    async def supervise(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The I/O-side task that is the model loop: it ends when that loop ends and raises what that loop raised."""
        self._io = trio.lowlevel.current_trio_token()
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                self.time.attach(self, nursery)
                if self.time.threaded:
                    await self._run_thread(task_status)
                else:
                    await self._main(task_status.started)
                nursery.cancel_scope.cancel()

    async def _run_thread(self, task_status: trio.TaskStatus[None]) -> None:
        task, io = trio.lowlevel.current_task(), self._io
        clock = self.time.model_clock(self, trio.lowlevel.current_clock())

        def started() -> None:
            io.run_sync_soon(task_status.started)

        def thread() -> None:
            result = outcome.capture(partial(trio.run, self._main, started, clock=clock))
            with suppress(trio.RunFinishedError):
                io.run_sync_soon(trio.lowlevel.reschedule, task, outcome.Value(result))

        self._thread = start_thread("reactor-model", thread)
        result = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        self._thread.join()
        result.unwrap()

    async def _main(self, started: Callable[[], object]) -> None:
        self._model, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as self._nursery:
            started()
            await self._stop.wait()

    def _post(self, function: Callable[..., object], *args: object) -> bool:
        self.time.posted()
        with suppress(trio.RunFinishedError):
            self._model.run_sync_soon(self._deliver, function, args)
            return True
        return False

    def _deliver(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        self.time.delivered()
        function(*args)


@asynccontextmanager
async def open_model_host(time: ClockHooks | None = None) -> AsyncGenerator[ModelHost, None]:
    """The outermost block of a server: sessions are opened, and have ended, inside it."""
    host = ModelHost(time or ClockHooks())
    async with trio.open_nursery() as nursery:
        with trio.CancelScope(shield=True):  # cancelled half-started it would leave a thread behind
            await nursery.start(host.supervise)
        try:
            yield host
        finally:
            host.close()
