"""How the two loops of a host keep time, and the places at which the test kit and a rendering take part in it.

In production both loops read one real clock (`ClockHooks` itself). `costs`, `author_threads` and `ModelHost.posts` are then
None, and a step that need not `settle` makes its own checkpoint; so it calls nothing of this. Under a virtual clock the test
kit stops the clock while model code computes, decides which loop goes first at the same instant, and lets each step take its
stated cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import trio


class PostObserver(Protocol):
    """Sees what the I/O loop posts to the model loop."""

    def posted(
        self, function: Callable[..., object], args: tuple[object, ...]
    ) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Called on the I/O loop before a call is queued for the model loop; returns the call that is queued instead."""


class StepCosts(Protocol):
    """What a step takes beside its computation. All methods are for the model loop.

    Attributes:
        charges: whether `spend` takes time.
    """

    charges: bool

    async def spend(self, step: int) -> float | None:
        """Called after step `step`. Sleeps for its stated cost and returns it in seconds, or waits for something else."""

    async def run_loop_resumes(self) -> None:
        """Called before `run()` goes on after `connected.wait()` or `emit()`."""


class AuthorThreadHooks(Protocol):
    """Sees the author code on an `AuthorThread`. All methods are for the model loop."""

    async def author_resumes(self) -> None:
        """Called before that code runs or goes on."""

    def author_rests(self) -> None:
        """Called when that code has ended, or waits for the model loop."""


class LoopCrossing(Protocol):
    """Queues calls between the loops; `ModelHost` implements it."""

    posts: PostObserver | None

    def post(self, function: Callable[..., object], *args: object) -> object:
        """Queue a call for the model loop."""

    def post_io(self, function: Callable[..., object], *args: object) -> None:
        """Queue a call for the I/O loop."""


class LinkedClock(trio.abc.Clock):
    """A clock that shows the time of another loop, `now()`; without it each `trio.run` starts at a random offset."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # each loop reads its clock many times a frame, so it calls the other clock without a function between them
        self.current_time = now  # type: ignore[method-assign]

    def start_clock(self) -> None:
        """Do nothing: the other loop has started the clock."""

    def current_time(self) -> float:
        """The other loop's time, in seconds."""
        return self._now()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until `deadline`. Trio calls this exactly when no task can run."""
        return deadline - self.current_time()


class ClockHooks:
    """The hooks in real time. The clock is never stopped, and no step has a stated cost."""

    #: whether the model loop runs on a thread of its own; if not, it is a task of the I/O loop, for tests
    threaded = True
    #: whether `settle` is more than a checkpoint
    settles = False
    #: None: a step takes the time that it takes
    costs: StepCosts | None = None
    author_threads: AuthorThreadHooks | None = None

    def model_clock(self, io_clock: trio.abc.Clock) -> trio.abc.Clock:
        """Return the clock for the model loop, which runs on a thread of its own."""
        return LinkedClock(io_clock.current_time)

    def attach(self, host: LoopCrossing, nursery: trio.Nursery) -> None:
        """Called when the host starts. `nursery` is on the I/O loop and lives as long as the host."""

    async def run_in_worker(self, function: Callable[[], Any]) -> Any:
        """Call `function` in a worker thread, for author code of the model loop; returns or raises what it does."""
        return await trio.to_thread.run_sync(function)

    async def settle(self, rested: bool) -> None:
        """Called on the model loop before a step or a handler. Lets everything that is due at this instant happen first.

        This is a checkpoint, unless the task has waited (`rested`) since its last step: one turn of the loop costs more than
        a small step.
        """
        if not rested:
            await trio.lowlevel.checkpoint()
