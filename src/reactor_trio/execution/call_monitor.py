"""The calls of author code that a session runs now, and the report of a call that takes too long while its client is there.

A step may hang, or only take long: the first one compiles. So it is reported once, with its stack, and `/health` names it
until it ends; nothing else follows from it. A call that outlives its session is reported elsewhere (`session.session`),
since other clients wait for its end.

The model loop begins and ends calls, and the I/O loop looks at them. The loops share only single operations on a set and on
flags. While the watching task waits for the moment at which a call would be late, the model loop posts nothing. The task
wakes at that moment, at most once in that many seconds, and waits for the call that runs then. If no call runs the task
sleeps, and the next call wakes it. So the start of a step posts nothing to either loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.lost_time import resumed_at


@dataclass(eq=False, slots=True)
class RunningCall:
    """A call of author code.

    Attributes:
        what: the beginning of a sentence that ends with `for 5 s`.
        since: when the call began, in `trio.current_time()` seconds.
        task: the task of the model loop that makes the call, None if it runs on `thread`, one of the author's threads.
    """

    what: str
    since: float
    task: trio.lowlevel.Task | None
    thread: threading.Thread | None = None
    reported: bool = False


def _tell_none(_what: str, _since: float) -> object:
    """Of a `CallMonitor` that does not run."""


class CallMonitor:
    """The calls of one session."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._running: set[RunningCall] = set()
        #: tasks that wait for a frame of their client
        self._reading: set[trio.lowlevel.Task] = set()
        #: set by the next end of a call, if a task waits for that
        self._one_ended: trio.Event | None = None
        self._asleep = False
        # on the I/O loop
        self._begun = trio.Event()  # by the next call, while `run` is asleep
        self._late: list[RunningCall] = []
        self._tell: Callable[[str, float], object] = _tell_none

    # ---- on the model loop --------------------------------------------------------------------------------------------

    def begins(self, what: str, now: float, thread: threading.Thread | None = None) -> RunningCall:
        """Note that author code runs from `now` on, in this task or on a thread of the author."""
        task = trio.lowlevel.current_task() if thread is None else None
        call = RunningCall(what, now, task, thread)
        self._running.add(call)
        if self._asleep:
            self._asleep = False
            self._host.post_io(self._begun.set)
        return call

    def ends(self, call: RunningCall) -> None:
        """Note that the call has ended. May be called again."""
        self._running.discard(call)
        if self._one_ended is not None:
            self._one_ended.set()
            self._one_ended = None
        if call.reported:
            self._host.post_io(self._ended, call)

    @contextmanager
    def running(self, what: str, thread: threading.Thread | None = None) -> Generator[None, None, None]:
        """A block in which author code runs; see `begins`."""
        call = self.begins(what, trio.current_time(), thread)
        try:
            yield
        finally:
            self.ends(call)

    async def until_none_of(self, task: trio.lowlevel.Task | None) -> None:
        """Return when this task makes no call."""
        while any(call.task is task for call in self._running):
            self._one_ended = self._one_ended or trio.Event()
            await self._one_ended.wait()

    def waits_for_input(self, waits: bool) -> None:
        """Note that the calling task waits for a frame of its client, or goes on. The wait does not count as the model's."""
        task = trio.lowlevel.current_task()
        if waits:
            self._reading.add(task)
        else:
            self._reading.discard(task)  # it may have begun to wait before the session
            for call in self._running:
                if call.task is task:
                    call.since = trio.current_time()

    # ---- on the I/O loop ----------------------------------------------------------------------------------------------

    async def run(
        self, after: float, report: Callable[[RunningCall], object], tell: Callable[[str, float], object]
    ) -> None:
        """Task: until cancelled, report each call once that has run for `after` seconds.

        Args:
            report: called with such a call.
            tell: called with the name and the beginning of the reported call that has run for the longest time; with an
                empty name when none runs.
        """
        self._tell = tell
        try:
            while True:
                call = self._unreported()
                if call is None:
                    self._begun, self._asleep = trio.Event(), True
                    if self._unreported() is None:  # looked at again: the model may have read the flag before it was set
                        await self._begun.wait()
                    self._asleep = False
                elif (at := max(call.since, resumed_at()) + after) > trio.current_time():
                    await trio.sleep_until(at)
                elif call.task in self._reading:
                    call.since = trio.current_time()
                else:
                    call.reported = True
                    if call in self._running:  # else it has ended without a look at the flag
                        self._late.append(call)
                        self._tell(self._late[0].what, self._late[0].since)
                        report(call)
        finally:
            self._tell = _tell_none  # it holds the session, which holds this
            if self._late:
                self._late.clear()
                tell("", 0.0)

    @property
    def oldest(self) -> RunningCall | None:
        """The call that has run for the longest time, None if none runs."""
        return min(tuple(self._running), key=lambda call: call.since, default=None)

    def _unreported(self) -> RunningCall | None:
        calls = (call for call in tuple(self._running) if not call.reported)
        return min(calls, key=lambda call: call.since, default=None)

    def _ended(self, call: RunningCall) -> None:
        if call in self._late:
            self._late.remove(call)
            oldest = self._late[0] if self._late else RunningCall("", 0.0, None)
            self._tell(oldest.what, oldest.since)


class MonitorsPieces:
    """An `Observer` of a `run()`: each piece between two of its awaits is a call in the monitor of the session.

    Args:
        monitor: gives the monitor of the current session, None without a session.
    """

    def __init__(self, monitor: Callable[[], CallMonitor | None]) -> None:
        self._monitor = monitor
        self._piece: tuple[CallMonitor, RunningCall] | None = None

    def resumes(self) -> None:
        """Begin a piece."""
        if (monitor := self._monitor()) is not None:
            self._piece = monitor, monitor.begins("run() has awaited nothing", trio.current_time())

    def waits(self, *, checkpoint: bool) -> None:
        """End the piece: author code waits."""
        self.ends()

    def ends(self) -> None:
        """End the piece, if one has begun."""
        if self._piece is not None:
            monitor, call = self._piece
            self._piece = None
            monitor.ends(call)
