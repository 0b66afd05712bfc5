"""The hooks of time: the points at which both loops report what they do, so that the test kit can control the clock.

In production both loops read one real clock, and the hooks do nothing. Under a virtual clock the test kit stops the clock
while model code computes, decides which loop goes first at the same instant, and lets each step take its stated cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import trio


class LoopCrossing(Protocol):
    """Queues calls between the loops; `ModelHost` implements it."""

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
    #: whether `spend` takes time
    charges = False
    #: whether `spend` does anything; if not, a step need not call it
    spends = False

    def model_clock(self, io_clock: trio.abc.Clock) -> trio.abc.Clock:
        """Return the clock for the model loop, which runs on a thread of its own."""
        return LinkedClock(io_clock.current_time)

    def attach(self, host: LoopCrossing, nursery: trio.Nursery) -> None:
        """Called when the host starts. `nursery` is on the I/O loop and lives as long as the host."""

    def posted(self) -> None:
        """Called on the I/O loop before a call is queued for the model loop."""

    def delivered(self) -> None:
        """Called on the model loop when such a call is about to run."""

    async def author_resumes(self) -> None:
        """Called on the model loop before author code on an `AuthorThread` runs or goes on."""

    async def run_loop_resumes(self) -> None:
        """Called on the model loop before `run()` goes on after `connected.wait()` or `emit()`, if `spends`."""

    def author_rests(self) -> None:
        """Called on the model loop when that code has ended, or waits for this loop."""

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

    async def spend(self, step: int) -> float | None:
        """Called on the model loop after step `step`. Sleeps for its stated cost; returns it in seconds, or None."""
        return None
