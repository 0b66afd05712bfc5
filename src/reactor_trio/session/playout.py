"""The playout of one session, on the I/O loop: it hands each bundle to the viewers at its due time.

The playout reports each hand-out to the model's side. It waits for time alone; no socket can hold it back unless
`slow_client: hold` asks for that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.messages import BundleShown, FlushPlayout, RetimePlayout, ShownUntil
from reactor_trio.media import Bundle
from reactor_trio.pacing import PresentationTimeline
from reactor_trio.telemetry import Telemetry


class Playout:
    """Queues the bundles of one session and shows each at its time.

    Args:
        telemetry: counts and traces what happens.
        channel: brings the bundles of the model's side, and takes the reports to it.
    """

    def __init__(self, telemetry: Telemetry, channel: ChannelEnd) -> None:
        self._telemetry = telemetry
        self._channel = channel
        self._queue: deque[Bundle] = deque()
        self._timeline = PresentationTimeline()
        self._shown_paced = False
        self._held = self._has_rested = False
        self._wakeup = RepeatedEvent()
        #: called with each bundle as it comes, also with a bundle that is dropped before it is due
        self.made: Callable[[Bundle], object] | None = None
        #: how long after its due time the newest bundle was handed out, in seconds
        self.last_lateness = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    async def run(self, hand: Callable[[Bundle, float], None], hold: Callable[[], Awaitable[None]] | None) -> None:
        """Task: hand out each bundle at its due time; cancelled when the session is over.

        Args:
            hand: gives a bundle and its presentation time (absolute, seconds) to the viewers; must not wait.
            hold: awaited before each hand-out, if the model is to wait for slow clients.
        """
        while True:
            self._channel.take()
            now = trio.current_time()
            if self._timeline.until > now:
                await self._wakeup.wait(self._timeline.until)  # nothing is due before the frame on screen has ended
                continue
            if not self._queue or self._held:
                if not self._channel.asleep:
                    self._channel.asleep = True  # and look once more: `LocalEnd` says why
                else:
                    await self._wakeup.wait()
                continue
            bundle = self._queue[0]
            if hold is not None:
                await hold()
                if not self._queue or self._queue[0] is not bundle or self._held:
                    continue
                now = trio.current_time()
            expected = max(self._timeline.until, bundle.ready)
            due = self._timeline.due(bundle.ready, now, bundle.duration)
            self._queue.popleft()
            self._channel.asleep = False
            if not bundle.paced and -math.inf < self._timeline.until < due and not self._has_rested:
                self._telemetry.underrun()
            self._has_rested = False
            self.last_lateness = now - due
            self._timeline.show(due, bundle.duration)
            self._shown_paced = bundle.paced
            hand(bundle, due)
            # The model's side takes a frame as shown when it is due; it is woken only for what it cannot know.
            wake = due != expected or hold is not None
            self._channel.send(BundleShown(self._timeline.until, bundle.epoch, wake))

    def hold(self) -> None:
        """Show no further bundle: the picture stays, and what is queued waits."""
        self._held = True

    def go_on(self, at: float) -> None:
        """Show what is queued, if it was held, and what comes, from `at` on. A wait until then is no underrun."""
        self._held, self._has_rested = False, True
        self._timeline.stand_still(at)
        self._wakeup.set()

    # ---- messages of the model's side ---------------------------------------------------------------------------------

    def put(self, bundle: Bundle) -> None:
        """Queue a bundle to be shown."""
        self._queue.append(bundle)
        if self.made is not None:
            self.made(bundle)
        if self._channel.asleep:
            self._wakeup.set()

    def retime(self, message: RetimePlayout) -> None:
        """Show the frame on screen and those queued for the interval each, unless audio fixes their duration."""
        interval = message.interval
        if self._shown_paced and self._timeline.until > -math.inf:
            self._timeline.retime(interval)
            self._channel.send(ShownUntil(self._timeline.until))
        self._queue = deque(replace(bundle, duration=interval) if bundle.paced else bundle for bundle in self._queue)
        self._wakeup.set()

    def flush(self, message: FlushPlayout) -> None:
        """Drop the bundles of epochs before the message's."""
        self._keep(deque(bundle for bundle in self._queue if bundle.epoch >= message.epoch), "flushed")
        self._channel.send(ShownUntil(self._timeline.until))
        self._wakeup.set()

    def close(self) -> None:
        """End the session: drop and count what is queued."""
        self._channel.take()
        self._keep(deque(), "session_over")

    def _keep(self, kept: deque[Bundle], reason: str) -> None:
        if gone := len(self._queue) - len(kept):
            self._telemetry.dropped("buffer", reason, gone)
        self._queue = kept
