"""The playout of one session, on the I/O loop: it hands each bundle to the viewers at its due time.

The playout reports each hand-out to the model's side. It waits for time alone; no socket can hold it back unless
`slow_client: hold` asks for that.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

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
        #: bounded in bytes by `OutputPacer`, which makes the bundles
        self._to_show, self._queue = trio.open_memory_channel[Bundle](math.inf)
        self._queued = self._received = 0
        #: the bundle that is shown next, once it is received
        self._next: Bundle | None = None
        #: the oldest epoch that is shown; the number of the newest bundle that has another duration since, and that duration
        self._epoch = 0
        self._retimed, self._interval = 0, 0.0
        self._timeline = PresentationTimeline()
        self._shown_paced = False
        self._paused = self._has_rested = False
        self._wakeup = RepeatedEvent()
        #: called with each bundle as it comes, also with a bundle that is dropped before it is due
        self.made: Callable[[Bundle], object] | None = None
        #: how long after its due time the newest bundle was handed out, in seconds
        self.last_lateness = 0.0

    def __len__(self) -> int:
        return self._queued - self._received + (self._next is not None)

    async def run(self, hand: Callable[[Bundle, float], None], until_free: Callable[[], Awaitable[None]] | None) -> None:
        """Task: hand out each bundle at its due time; cancelled when the session is over.

        Args:
            hand: gives a bundle and its presentation time (absolute, seconds) to the viewers; must not wait.
            until_free: awaited before each hand-out, if the model is to wait for slow clients.
        """
        now = trio.current_time()
        while True:
            self._channel.take()
            if self._timeline.until > now:
                await self._wakeup.wait(self._timeline.until)
                # Nothing was due before the frame on screen has ended. If the session is over at this instant, the wait may
                # raise only the next time: then the frame that is due now is still handed out, which the session bears.
                now = trio.current_time()
                continue
            empty = self._next is None and self._received == self._queued
            if empty or self._paused:
                if not self._channel.asleep:
                    self._channel.asleep = True  # and look once more: `LocalEnd` says why
                elif self._paused:
                    await self._wakeup.wait()
                else:
                    self._next = await self._queue.receive()
                    self._received += 1
                now = trio.current_time()
                continue
            if self._next is None:
                self._next = self._queue.receive_nowait()
                self._received += 1
            bundle = self._next
            if bundle.epoch < self._epoch:  # a flush came when it had left the queue, and this task had not run yet
                self._next = None
                self._telemetry.dropped("buffer", "flushed", 1)
                continue
            if until_free is not None:
                await until_free()
                now = trio.current_time()
                if self._next is not bundle or self._paused or self._timeline.until > now:
                    continue
            if bundle.paced and self._received <= self._retimed:
                bundle = replace(bundle, duration=self._interval)
            expected = max(self._timeline.until, bundle.ready)
            due = self._timeline.due(bundle.ready, now, bundle.duration)
            self._next = None
            self._channel.asleep = False
            if not bundle.paced and -math.inf < self._timeline.until < due and not self._has_rested:
                self._telemetry.underrun()
            self._has_rested = False
            self.last_lateness = now - due
            self._timeline.show(due, bundle.duration)
            self._shown_paced = bundle.paced
            hand(bundle, due)
            # The model's side takes a frame as shown when it is due; it is woken only for what it cannot know.
            wake = due != expected or until_free is not None
            self._channel.send(BundleShown(self._timeline.until, bundle.epoch, wake))
            now = now if self._timeline.until > now else trio.current_time()  # `now` serves the wait, unless it is late

    def pause(self) -> None:
        """Show no further bundle: the picture stays, and what is queued waits."""
        self._paused = True

    def resume(self, at: float) -> None:
        """Show what is queued, if it was paused, and what comes, from `at` on. A wait until then is no underrun."""
        self._paused, self._has_rested = False, True
        self._timeline.stand_still(at)
        self._wakeup.set()

    # ---- messages of the model's side ---------------------------------------------------------------------------------

    def put(self, bundle: Bundle) -> None:
        """Queue a bundle to be shown."""
        self._to_show.send_nowait(bundle)
        self._queued += 1
        if self.made is not None:
            self.made(bundle)

    def retime(self, message: RetimePlayout) -> None:
        """Show the frame on screen and those queued for the interval each, unless audio fixes their duration."""
        interval = message.interval
        if self._shown_paced and self._timeline.until > -math.inf:
            self._timeline.retime(interval)
            self._channel.send(ShownUntil(self._timeline.until))
        self._retimed, self._interval = self._queued, interval
        self._wakeup.set()

    def flush(self, message: FlushPlayout) -> None:
        """Drop the bundles of epochs before the message's."""
        self._epoch = message.epoch
        self._drop("flushed")
        self._channel.send(ShownUntil(self._timeline.until))
        self._wakeup.set()

    def close(self) -> None:
        """End the session: drop and count what is queued."""
        self._channel.take()
        self._drop("session_over")
        self._queue.close()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _drop(self, reason: str) -> None:
        """Drop and count what is queued."""
        gone, self._next = int(self._next is not None), None
        with suppress(trio.WouldBlock):
            while True:
                self._queue.receive_nowait()
                self._received += 1
                gone += 1
        if gone:
            self._telemetry.dropped("buffer", reason, gone)
