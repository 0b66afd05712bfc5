"""What the two loops ask of time, in one place that the test kit can take over.

In production both loops read one real clock and there is nothing to keep. Under a virtual clock the kit's keepers hold it
while model code computes, make ties between the loops come out one way, and charge each step its stated cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from reactor_trio.concurrency.model_host import ModelHost


class LinkedClock(trio.abc.Clock):
    """The model loop's clock: the I/O loop's time. Each `trio.run` would otherwise start at a random offset."""

    def __init__(self, io_clock: trio.abc.Clock) -> None:
        self.io_clock = io_clock

    def start_clock(self) -> None:
        """The I/O loop has started it."""

    def current_time(self) -> float:
        """The I/O loop's time, in seconds."""
        return self.io_clock.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds until `deadline`; Trio asks exactly when no task is runnable."""
        return deadline - self.current_time()


class ClockHooks:
    """Real time: nothing is held, nothing is charged."""

    #: whether the model loop is a thread (True) or a task of the I/O loop, for tests that need no thread
    threaded = True
    #: whether `spend` takes time
    charges = False

    def model_clock(self, host: ModelHost, io_clock: trio.abc.Clock) -> trio.abc.Clock:
        """The clock for the model loop."""
        return LinkedClock(io_clock)

    def attach(self, host: ModelHost, nursery: trio.Nursery) -> None:
        """The host starts; `nursery` lives on the I/O loop as long as the host."""

    def posted(self) -> None:
        """I/O loop: something is on its way to the model loop."""

    def delivered(self) -> None:
        """Model loop: it has arrived."""

    async def author_resumes(self) -> None:
        """Model loop: blocking author code on a thread of its own is about to run, or to go on."""

    def author_rests(self) -> None:
        """Model loop: it has ended, or waits for this loop."""

    async def settle(self, rested: bool) -> None:
        """Model loop, before a step or a handler: let what is due at this instant happen first.

        A checkpoint, unless the task has `rested` since its last one: a turn of the loop costs more than a small step.
        """
        if not rested:
            await trio.lowlevel.checkpoint()

    async def spend(self, step: int) -> float | None:
        """Model loop, after step number `step`: charge its stated cost; returns it in seconds, None if it is real."""
        return None
