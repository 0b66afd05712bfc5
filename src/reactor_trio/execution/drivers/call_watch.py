"""Which calls of author code a session runs now, and the report of one that takes too long while its client is there.

A step may hang, or only take long: the first one compiles. So it is reported once, with its stack, and `/health` names it
until it ends; nothing else follows from it. What outlives its session is another report (`stuck`), since then others wait.

The model loop begins and ends calls, and the I/O loop looks at them; what both touch are single operations on a set and on
flags. While the watching task waits for the moment at which a call would be late, the model tells it nothing. It wakes then,
at most once in that many seconds, and waits for the call that runs now. If none does it is asleep, and the next call wakes
it. So a step costs neither loop a word.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.repeated_event import RepeatedEvent


class RunningCall:
    """A call of author code. `what` is the begin of a sentence that ends with `for 5 s`.

    `task` of the model loop makes it, or it runs on `thread`, one of the author's own.
    """

    __slots__ = ("reported", "since", "task", "thread", "what")

    def __init__(
        self, what: str, since: float, task: trio.lowlevel.Task | None, thread: threading.Thread | None = None
    ) -> None:
        self.what = what
        self.since = since
        self.task = task
        self.thread = thread
        self.reported = False


class CallWatch:
    """The calls of one session."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._running: set[RunningCall] = set()
        #: tasks that wait for a frame of their client
        self._reading: set[trio.lowlevel.Task] = set()
        self._asleep = False
        # on the I/O loop
        self._wakeup = RepeatedEvent()
        self._late: list[RunningCall] = []
        self._tell: Callable[[str, float], object] = lambda _what, _since: None

    # ---- on the model loop --------------------------------------------------------------------------------------------

    def begins(self, what: str, thread: threading.Thread | None = None) -> RunningCall:
        """Author code runs from now on, in this task or on a thread of the author."""
        task = trio.lowlevel.current_task() if thread is None else None
        call = RunningCall(what, trio.current_time(), task, thread)
        self._running.add(call)
        if self._asleep:
            self._asleep = False
            self._host.post_io(self._wakeup.set)
        return call

    def ends(self, call: RunningCall) -> None:
        """It runs no longer; again does no harm."""
        self._running.discard(call)
        if call.reported:
            self._host.post_io(self._ended, call)

    @contextmanager
    def running(self, what: str, thread: threading.Thread | None = None) -> Generator[None, None, None]:
        """Author code runs in this block; see `begins`."""
        call = self.begins(what, thread)
        try:
            yield
        finally:
            self.ends(call)

    def waits_for_input(self, waits: bool) -> None:
        """The calling task waits for a frame of its client, or goes on: the time of the client is not that of the model."""
        task = trio.lowlevel.current_task()
        if waits:
            self._reading.add(task)
        else:
            self._reading.discard(task)  # it may have begun to wait before the session
            for call in self._running:
                if call.task is task:
                    call.since = trio.current_time()

    # ---- on the I/O loop ----------------------------------------------------------------------------------------------

    async def watch(
        self, after: float, report: Callable[[RunningCall], object], tell: Callable[[str, float], object]
    ) -> None:
        """Task: until cancelled, report each call once that has run for `after` seconds.

        Args:
            report: told of such a call.
            tell: told which of them runs for the longest time, and since when; with an empty text when none does.
        """
        self._tell = tell
        try:
            while True:
                call = self._unreported()
                if call is None:
                    self._asleep = True
                    if self._unreported() is None:  # looked at again: the model may have read the flag before it was set
                        await self._wakeup.wait()
                    self._asleep = False
                elif (at := call.since + after) > trio.current_time():
                    await self._wakeup.wait(at)
                elif call.task in self._reading:
                    call.since = trio.current_time()
                else:
                    call.reported = True
                    if call in self._running:  # else it has ended without a look at the flag
                        self._late.append(call)
                        self._tell(self._late[0].what, self._late[0].since)
                        report(call)
        finally:
            if self._late:
                self._late.clear()
                tell("", 0.0)

    @property
    def oldest(self) -> RunningCall | None:
        """The one that has run for the longest time."""
        return min(tuple(self._running), key=lambda call: call.since, default=None)

    def _unreported(self) -> RunningCall | None:
        calls = [call for call in tuple(self._running) if not call.reported]
        return min(calls, key=lambda call: call.since, default=None)

    def _ended(self, call: RunningCall) -> None:
        if call in self._late:
            self._late.remove(call)
            oldest = self._late[0] if self._late else RunningCall("", 0.0, None)
            self._tell(oldest.what, oldest.since)


class WatchesPieces:
    """Sees what a `run()` does between two of its awaits; an `Observer`.

    Args:
        watch: gives that of the session, None if there is none.
    """

    def __init__(self, watch: Callable[[], CallWatch | None]) -> None:
        self._watch = watch
        self._piece: tuple[CallWatch, RunningCall] | None = None

    def resumes(self) -> None:
        """See `Observer`."""
        watch = self._watch()
        self._piece = None if watch is None else (watch, watch.begins("run() has awaited nothing"))

    def waits(self, *, checkpoint: bool) -> None:
        """See `Observer`."""
        self.ends()

    def ends(self) -> None:
        """See `Observer`."""
        if self._piece is not None:
            watch, call = self._piece
            self._piece = None
            watch.ends(call)
