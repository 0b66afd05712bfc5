"""The model host: connects the I/O loop (sockets, pacing) and the model loop (all author code).

Reactor's page on `inference()` calls a blocking forward directly from `async def inference`. Therefore author code runs on a
Trio loop of its own, in a thread of its own, where it may block. Load, steps, handlers, hooks, `run()` and the closing of
generators all run there, so that thread-local state of torch and CUDA stays valid.

There are two placements. "thread": `trio.run` runs `_main` on that thread. "inline", for tests in virtual time: the same
`_main` is a task of the loop that opened the host. No other code knows which one it is. Every crossing uses `run_sync_soon`,
even if both ends are on one loop, so that an inline test exercises the crossing too.

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
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import outcome
import trio
from sniffio import current_async_library_cvar

from reactor_trio.concurrency.asyncio_calls import ASYNCIO_CALLS, AsyncioCalls
from reactor_trio.concurrency.author_thread import AuthorThread, start_thread
from reactor_trio.concurrency.clock_hooks import ClockHooks, PostObserver
from reactor_trio.concurrency.failure_log import FailureLog
from reactor_trio.concurrency.nested_loops import hide_trio_from_nested_loops
from reactor_trio.concurrency.stacks import await_stack, runs_now, thread_stack

T = TypeVar("T")


class HostClosed(RuntimeError):
    """The model loop has ended, or is ending, and takes no more work."""


class SessionOver(BaseException):
    """`check_cancelled()` raises it in model code. It is a BaseException, so that `except Exception` does not catch it."""


def strip(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    """Return the exception or group without these kinds, None if nothing is left. A nursery groups even GeneratorExit."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)[1]
    return None if isinstance(error, kinds) else error


class Call:
    """One task on the model loop. Only that loop uses `scope`; any thread may read `cancel_requested` at any time."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.cancel_requested = False


_CALL: contextvars.ContextVar[Call] = contextvars.ContextVar("reactor_call")


def current_call() -> Call:
    """Return the `Call` that this code runs in. Tasks and worker threads that author code starts inherit it."""
    return _CALL.get()


class ExecutionObserver:
    """Receives what the model loop reports to the test kit. In production nothing listens: this base class ignores it."""

    def begun(self, session_id: str, model_session: Any) -> None:
        """Called when a session begins. `model_session` is its `SessionTasks`."""

    def unheard(self, session_id: str, error: BaseException) -> None:
        """Called when author code raised an exception that is only logged: it reaches no client and ends no session."""


class ModelHost:
    """Runs author code. The I/O loop uses `run`, `post` and `stack`, the model loop `post_io` and `time`."""

    def __init__(self, time: ClockHooks) -> None:
        self.time = time
        #: None in production
        self.posts: PostObserver | None = None
        self._asyncio_calls = AsyncioCalls(time.run_in_worker)
        #: logs exceptions of author code that end no session; for the model loop
        self.failures = FailureLog()
        #: observes sessions, and exceptions of author code that reach no client
        self.observer = ExecutionObserver()
        #: number of `run` calls in progress, for leak checks
        self.live_calls = 0
        #: the model thread; None if the model loop is a task
        self.thread: threading.Thread | None = None
        #: `author_threads`, once something has used them
        self.opened_author_threads: tuple[()] | tuple[AuthorThread, AuthorThread] = ()

    def post(self, function: Callable[..., object], *args: object) -> bool:
        """Queue a call on the model loop, from the I/O loop. False if that loop has ended. `function` must not raise."""
        if self.posts is not None:
            function, args = self.posts.posted(function, args)
        try:
            self._model.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return False
        return True

    def post_io(self, function: Callable[..., object], *args: object) -> None:
        """Queue a call on the I/O loop, from any thread. It is lost if that loop has ended. `function` must not raise."""
        try:  # noqa: SIM105 - `suppress` would be three calls more, on the way of each frame
            self._io.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            pass

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await `function(*args)` on the model loop, from a task of the I/O loop.

        The value, the exception and the context variables cross. Cancelling the caller cancels the task on the model loop,
        and `run` waits until that task has unwound. If the task then still returns a value or raises an error, so does
        `run`. Raises HostClosed if the model loop ends.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        assert trio.lowlevel.current_trio_token() is self._io, "run() is for the I/O loop: the answer is delivered there"
        task, call, context = trio.lowlevel.current_task(), Call(), contextvars.copy_context()
        raise_cancel: Callable[[], Any] | None = None

        async def body() -> None:
            _CALL.set(call)
            ASYNCIO_CALLS.set(self._asyncio_calls)
            current_async_library_cvar.set(None)  # `anyio.run` sets it to "trio", and it would go on to nested loops
            result: outcome.Maybe[T] | None = None
            try:
                with call.scope:
                    result = outcome.Value(await function(*args))
            except BaseException as error:
                # A Cancelled that `call.scope` did not absorb belongs to the model loop, not to the caller.
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

        if not self.post(start):
            raise HostClosed("the model loop has ended")
        self.live_calls += 1
        try:
            result = await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            self.live_calls -= 1
        if result is None:
            assert raise_cancel is not None
            raise_cancel()
        value: T = result.unwrap()
        return value

    @property
    def author_threads(self) -> tuple[AuthorThread, AuthorThread]:
        """The thread of a blocking model's sessions and that of its handlers. Made on first use, on the model loop."""
        if not self.opened_author_threads:
            session, handlers = (AuthorThread(f"reactor-{job}", self.time) for job in ("session", "handlers"))
            self.opened_author_threads = session, handlers
        return self.opened_author_threads

    def stack(self, task: trio.lowlevel.Task | None = None, thread: threading.Thread | None = None) -> str:
        """Return the stack of the author code that runs now, without the runtime's frames above it; "" if none runs.

        Args:
            task: a task of the model loop. If author code waits in it, the stack shows where.
            thread: one of `author_threads`. Without `task` and `thread`: the thread of a blocking model's sessions, if any.
        """
        if task is not None and not runs_now(task, self.thread) and (waits := await_stack(task)):
            return waits
        if task is None and thread is None and (authors := self.opened_author_threads):
            thread = authors[0].thread
        return thread_stack(thread or self.thread)

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether it is Ctrl-C in a test, where model code runs in the main thread."""
        return isinstance(error, KeyboardInterrupt) and self.thread is None

    def close(self) -> None:
        """End the model loop, once it has no tasks left, and the author threads."""
        for author in self.opened_author_threads:
            author.close()
        self.post(self._stop.set)

    async def supervise(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the model loop, as a task of the I/O loop. Returns when the model loop ends, raises what it raised."""
        hide_trio_from_nested_loops()
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
        task = trio.lowlevel.current_task()
        clock = self.time.model_clock(trio.lowlevel.current_clock())

        def thread() -> None:
            run = partial(trio.run, self._main, partial(self.post_io, task_status.started), clock=clock)
            self.post_io(trio.lowlevel.reschedule, task, outcome.capture(run))

        self.thread = start_thread("reactor-model", thread)
        try:
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        finally:
            self.thread.join()

    async def _main(self, started: Callable[[], object]) -> None:
        self._model, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as self._nursery:
            started()
            await self._stop.wait()


@asynccontextmanager
async def open_model_host(time: ClockHooks | None = None) -> AsyncGenerator[ModelHost, None]:
    """Open a `ModelHost`. This is the outermost block of a server: every session begins and ends inside it."""
    host = ModelHost(time or ClockHooks())
    async with trio.open_nursery() as nursery:
        with trio.CancelScope(shield=True):  # a cancelled start would leave a thread behind
            await nursery.start(host.supervise)
        try:
            yield host
        finally:
            host.close()
