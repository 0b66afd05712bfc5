"""Clock hooks that give a test virtual time, over one loop or two.

`InlineTime` runs the model loop as a task of the test's loop: autojump then sees everything. `HeldTime` runs the real
model thread and holds the virtual clock while that thread computes: a task waits in `wait_all_tasks_blocked(inf)`, which
suppresses autojump, for exactly as long as the model loop is busy; while it is idle the clock may jump no further than that
loop's next deadline. Both charge each step its stated cost. Everything due at an instant happens before a step begins, so
that a tie has one outcome in whatever order Trio runs ready tasks.
"""

from __future__ import annotations

import math
import threading
import unittest.mock
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import trio
import trio.testing

from reactor_trio.concurrency import ClockHooks, ModelHost
from reactor_trio.concurrency.clock_hooks import LinkedClock, LoopCrossing

#: Seconds of real time after which author code on one thread no longer waits for that on another.
TURN_TIMEOUT = 1.0

#: Seconds of virtual time that each step takes: a number, a list (its last entry holds on), or a function of the step.
StepCost = float | Sequence[float] | Callable[[int], float]


class VirtualTime(ClockHooks):
    """Charges steps their stated cost."""

    settles = charges = True

    def __init__(self, step_cost: StepCost | None) -> None:
        if step_cost is not None:
            self._step_cost, self.costs = step_cost, self
        self.author_threads = self

    async def author_resumes(self) -> None:
        """Do nothing."""

    def author_rests(self) -> None:
        """Do nothing."""

    async def run_loop_resumes(self) -> None:
        """Do nothing: a `run()` waits for no one else."""

    async def spend(self, step: int) -> float:
        """Sleep for the step's cost; shielded, since a forward pass cannot be interrupted either."""
        cost = _cost(self._step_cost, step)
        with trio.CancelScope(shield=True):
            await trio.sleep(cost)
        return cost


class InlineTime(VirtualTime):
    """The model loop is a task of the test's loop."""

    threaded = False

    def attach(self, host: LoopCrossing, nursery: trio.Nursery) -> None:
        """Begin to keep time."""
        self._computing = 0  # threads of the author that compute now
        self._holding = 0  # the same, with those that wait for their turn, and the worker threads
        self._nobody_computes = threading.Event()
        self._nobody_computes.set()
        self._order, self._begun, self._hold = trio.Lock(), trio.Event(), trio.CancelScope()
        nursery.start_soon(self._keep)

    async def author_resumes(self) -> None:
        """Hold the clock while author code of a thread computes, and let one thread of the author compute at a time.

        If two threads wait for each other by a lock or event of their own, the second goes on after a second of real time.
        """
        self._hold_clock()
        async with self._order:
            if self._computing:
                await trio.to_thread.run_sync(self._nobody_computes.wait, TURN_TIMEOUT)
            self._computing += 1
            self._nobody_computes.clear()

    def author_rests(self) -> None:
        """The clock may go on."""
        self._computing -= 1
        if not self._computing:
            self._nobody_computes.set()
        self._release_clock()

    async def run_in_worker(self, function: Callable[[], Any]) -> Any:
        """Hold the clock while the worker thread runs: autojump does not wait for it."""
        self._hold_clock()
        try:
            return await super().run_in_worker(function)
        finally:
            self._release_clock()

    async def settle(self, rested: bool) -> None:
        """Wait until nothing else can run at this instant."""
        await trio.testing.wait_all_tasks_blocked()

    def _hold_clock(self) -> None:
        self._holding += 1
        self._begun.set()

    def _release_clock(self) -> None:
        self._holding -= 1
        if not self._holding:
            self._begun = trio.Event()
            self._hold.cancel()

    async def _keep(self) -> None:
        while True:
            if not self._holding:  # checked again after each wait, since a computation may begin and end meanwhile
                await self._begun.wait()
                continue
            with trio.CancelScope() as self._hold:
                await trio.testing.wait_all_tasks_blocked(math.inf)  # a waiter here suppresses autojump


class _ReportingClock(LinkedClock):
    """Reports that the model loop is idle: Trio asks for the sleep time exactly when no task is runnable."""

    def __init__(self, io_clock: trio.abc.Clock, report: Callable[[float], None]) -> None:
        super().__init__(io_clock.current_time)
        self._report = report

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left = super().deadline_to_sleep_time(deadline)
        if left <= 0:
            return left
        self._report(deadline)
        return math.inf


class _WorkerThreads(trio.abc.Instrument):
    """Notices when code of this loop is in `trio.to_thread`: autojump does not wait for worker threads."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._limiter = trio.to_thread.current_default_thread_limiter()
        self._changed = changed
        self.busy = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if (busy := self._limiter.borrowed_tokens > 0) != self.busy:
            self.busy = busy
            self._changed()


class HeldTime(VirtualTime):
    """The model loop is a real thread; the test's virtual clock is held while it computes.

    The I/O loop counts what it posts; a report of idleness that has seen less is stale and ignored.
    """

    async def author_resumes(self) -> None:
        """Refuse: two threads and a held clock would be three clocks."""
        raise TypeError("thread=True is not for a VideoModel: its session runs on a thread of its own anyway")

    def model_clock(self, io_clock: trio.abc.Clock) -> trio.abc.Clock:
        """A clock that reports idleness."""
        if not isinstance(io_clock, trio.testing.MockClock):
            raise TypeError("thread=True needs a virtual clock: use the autojump_clock fixture")
        return _ReportingClock(io_clock, self._report_idle)

    def attach(self, host: LoopCrossing, nursery: trio.Nursery) -> None:
        """Begin to keep time."""
        self._host = host
        host.posts = self
        self._nursery = nursery
        self._posted = self._seen = self._settling = 0
        self._idle_until: float | None = None  # the model loop's next deadline; None while it is busy
        self._nap = trio.CancelScope()
        nursery.start_soon(self._keep)

    def posted(
        self, function: Callable[..., object], args: tuple[object, ...]
    ) -> tuple[Callable[..., object], tuple[object, ...]]:
        """The I/O loop posts work for the model loop, which counts it when it comes."""
        self._posted += 1
        self._idle_until = None
        self._nap.cancel()
        return self._deliver, (function, args)

    def _deliver(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        self._seen += 1
        function(*args)

    async def settle(self, rested: bool) -> None:
        """Wait until both loops have nothing else to do at this instant."""
        self._settling += 1  # a loop that waits here looks idle, but must not be reported as idle
        try:
            while True:
                await trio.testing.wait_all_tasks_blocked()
                before, quiet, token = self._seen, trio.Event(), trio.lowlevel.current_trio_token()

                async def ask(quiet: trio.Event = quiet, token: trio.lowlevel.TrioToken = token) -> None:
                    await trio.testing.wait_all_tasks_blocked()
                    with suppress(trio.RunFinishedError):  # the caller was cancelled, and its loop has ended
                        token.run_sync_soon(quiet.set)

                self._host.post_io(self._nursery.start_soon, ask)
                await quiet.wait()
                if self._posted == self._seen == before:
                    return
        finally:
            self._settling -= 1

    def _report_idle(self, deadline: float) -> None:
        limiter = trio.to_thread.current_default_thread_limiter()
        if not self._settling and not limiter.borrowed_tokens:
            self._host.post_io(self._on_idle, self._seen, deadline)

    def _on_idle(self, seen: int, deadline: float) -> None:
        if seen == self._posted:
            self._idle_until = deadline
            self._nap.cancel()

    async def _keep(self) -> None:
        workers = _WorkerThreads(lambda: self._nap.cancel())
        trio.lowlevel.add_instrument(workers)
        try:
            while True:
                with trio.CancelScope() as self._nap:
                    if self._idle_until is None or workers.busy:
                        await trio.testing.wait_all_tasks_blocked(math.inf)  # a waiter here suppresses autojump
                    assert self._idle_until is not None
                    await trio.sleep_until(self._idle_until)
                    await trio.testing.wait_all_tasks_blocked()  # tasks that are due on this loop at this instant run first
                    self._host.post(lambda: None)  # wake the model loop, which reads the clock itself
        finally:
            trio.lowlevel.remove_instrument(workers)


@contextmanager
def virtual_sleep(host: ModelHost) -> Generator[None, None, None]:
    """During the block `time.sleep` takes virtual time on the threads of a blocking model, and real time elsewhere."""

    def sleep(seconds: float) -> None:
        author = next((a for a in host.opened_author_threads if a.thread is threading.current_thread()), None)
        if author is not None:
            author.call_loop(trio.sleep, seconds)
        else:
            real(seconds)

    patch = unittest.mock.patch("time.sleep", sleep)
    real = patch.get_original()[0]
    with patch:
        yield


@asynccontextmanager
async def hold_clock() -> AsyncGenerator[None, None]:
    """Hold the virtual clock during the block: for threads of your own, which autojump does not wait for."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.testing.wait_all_tasks_blocked, math.inf)
        yield
        nursery.cancel_scope.cancel()


def _cost(step_cost: StepCost, step: int) -> float:
    if callable(step_cost):
        return step_cost(step)
    if isinstance(step_cost, Sequence):
        return step_cost[min(step, len(step_cost) - 1)]
    return step_cost
