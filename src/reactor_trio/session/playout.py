"""Frames on their way out, on the I/O loop: each bundle is handed to the viewers at its due time, and to the model's side
goes the word that it was. The playout waits for time alone; no socket can hold it back unless `slow_client: hold` asks so.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.model_session import ModelSession
from reactor_trio.media import Bundle
from reactor_trio.pacing import PresentationTimeline
from reactor_trio.telemetry import Telemetry


class Playout:
    """The queue and the clock-driven task of one session.

    Args:
        hand: gives a bundle and its presentation time (absolute, seconds) to the viewers; must not wait.
        hold: awaited before a bundle is handed, where the model shall wait for slow clients.
        telemetry: counts and traces what happens.
        half: the model's side; it leaves in its mailbox what it made, and is told what became of it.
    """

    def __init__(
        self,
        hand: Callable[[Bundle, float], None],
        hold: Callable[[], Awaitable[None]] | None,
        telemetry: Telemetry,
        model_session: ModelSession,
    ) -> None:
        self._hand = hand
        self._hold = hold
        self._telemetry = telemetry
        self._model_session = model_session
        self._mailbox = model_session.mailbox
        self._queue: deque[tuple[Bundle, int, float]] = deque()
        self._timeline = PresentationTimeline()
        self._shown_paced = False
        self._wakeup = RepeatedEvent()
        #: told of each bundle as it comes, also of those that are dropped before they are due; None: nobody is
        self.made: Callable[[Bundle], object] | None = None
        #: how long after its due time the bundle handed last was handed, in seconds
        self.last_lateness = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    async def run(self) -> None:
        """Hand bundles for ever, each at its due time; cancelled when the session is over."""
        while True:
            self._mailbox.deliver()
            now = trio.current_time()
            if self._timeline.until > now:
                await self._wakeup.wait(self._timeline.until)  # nothing is due before the frame on screen has ended
                continue
            if not self._queue:
                if not self._mailbox.asleep:
                    self._mailbox.asleep = True  # then look once more: see there
                else:
                    await self._wakeup.wait()
                continue
            bundle, epoch, ready = self._queue[0]
            if self._hold is not None:
                await self._hold()
                if not self._queue or self._queue[0][0] is not bundle:
                    continue
                now = trio.current_time()
            expected = max(self._timeline.until, ready)
            due = self._timeline.due(ready, now, bundle.duration)
            self._queue.popleft()
            self._mailbox.asleep = False
            if not bundle.paced and -math.inf < self._timeline.until < due:
                self._telemetry.underrun()
            self.last_lateness = now - due
            self._timeline.show(due, bundle.duration)
            self._shown_paced = bundle.paced
            self._hand(bundle, due)
            # The model's side takes a frame as shown when it is due; only what it cannot know is worth waking it.
            self._model_session.handed(self._timeline.until, epoch, wake=due != expected or self._hold is not None)

    # ---- heard from the model's side ----------------------------------------------------------------------------------

    def put(self, bundle: Bundle, epoch: int, ready: float) -> None:
        """A bundle was made, at `ready` in `trio.current_time()` seconds."""
        self._queue.append((bundle, epoch, ready))
        if self.made is not None:
            self.made(bundle)
        if self._mailbox.asleep:
            self._wakeup.set()

    def retime(self, interval: float) -> None:
        """The rate changed: what is shown and what is queued last `interval` seconds, unless audio says otherwise."""
        if self._shown_paced and self._timeline.until > -math.inf:
            self._timeline.retime(interval)
            self._tell_until()
        self._queue = deque(
            (replace(bundle, duration=interval) if bundle.paced else bundle, epoch, ready)
            for bundle, epoch, ready in self._queue
        )
        self._wakeup.set()

    def flush(self, epoch: int) -> None:
        """Drop what was made before `epoch`."""
        kept = deque(entry for entry in self._queue if entry[1] >= epoch)
        self._count_flushed("flushed", kept)
        self._tell_until()
        self._wakeup.set()

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped on the model's side."""
        self._telemetry.dropped(place, reason, frames)

    def close(self) -> None:
        """The session is over: what is queued is dropped and counted."""
        self._mailbox.deliver()
        self._count_flushed("session_over", deque())

    def _tell_until(self) -> None:
        self._model_session.shown(self._timeline.until)

    def _count_flushed(self, reason: str, kept: deque[tuple[Bundle, int, float]]) -> None:
        if gone := len(self._queue) - len(kept):
            self._telemetry.dropped("buffer", reason, gone)
        self._queue = kept
