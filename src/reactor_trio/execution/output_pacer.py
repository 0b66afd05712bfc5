"""Frames out of the model, on its own loop: accept, pace, queue.

Room is counted here, where it is spent, and is free again when a frame is shown, which `PlayoutForecast` knows; so nothing
is computed that could not be queued. While nobody watches there is none, and that time counts for nothing. Each bundle
leaves with its duration; after a flush, words about older ones do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.interface.declaration import Declaration
from reactor_trio.media import Bundle, Chunk, FrameHandle, Origin, black_chunk
from reactor_trio.pacing import BlockCadence, Cadence, PlayoutForecast, PlayoutSmoother, StepMargin


class PlayoutSide(Protocol):
    """The other half, on the I/O loop; each method is heard from the mailbox and must not raise."""

    def put(self, bundle: Bundle, epoch: int, ready: float) -> None:
        """A bundle was made, at `ready` in `trio.current_time()` seconds."""

    def flush(self, epoch: int) -> None:
        """What was made before `epoch` is void."""

    def retime(self, interval: float) -> None:
        """The rate changed."""

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped on this side."""


class OutputPacer:
    """Model side of a session's frames; `waits` is told before a pipeline's frame waits for room."""

    def __init__(
        self,
        mailbox: Mailbox,
        replies: Mailbox,
        playout: PlayoutSide,
        declaration: Declaration,
        cadence: Cadence,
        forecast: PlayoutForecast,
        wakeup: RepeatedEvent,
        waits: Callable[[], object] = lambda: None,
    ) -> None:
        self._mailbox = mailbox
        self._replies = replies
        self._playout = playout
        self._declaration = declaration
        self._cadence = cadence
        self._forecast = forecast
        self._step_margin = StepMargin()
        self._smoother = PlayoutSmoother()
        self._interval: float | None = None  # of a pipeline's newest frames
        self._wakeup = wakeup
        self._waits = waits
        self._epoch = 0
        self._seqs: dict[str, int] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._frames_per_step = 1
        # A blocking model computes its next block while one is shown: there is room for both.
        self._blocks = 2 if isinstance(cadence, BlockCadence) else 1
        #: capture time of the input frame that the model read last, in microseconds of the client's clock
        self.input_pts_us: int | None = None
        self.closed = False
        self._paused_at: float | None = None

    @property
    def fps(self) -> float:
        """Target rate in frames per second."""
        return self._cadence.fps

    # ---- what the model asks ------------------------------------------------------------------------------------------

    def step_at(self, now: float) -> float:
        """When the next step of a pipeline may start."""
        self._replies.deliver()
        if self._paused_at is not None:
            return math.inf
        step_margin = self._step_margin.seconds(self._cadence.interval)
        if self._smoother.cycle > self._cadence.shortest * self._frames_per_step:  # it never rests
            step_margin = max(step_margin, self._smoother.ahead)
        return self._forecast.step_at(now, self._predicted, step_margin)

    async def queue(self, chunk: Chunk, late: float, seconds: float, between: float, origin: Origin) -> None:
        """Queue what a pipeline's step, begun `late` seconds after it was planned, made in `seconds`, its turn waited for.

        `between` is what passed since the step before, 0 if there was a wait. Waits for room if the step came early. Loses
        nothing.
        """
        self._step_margin.observe(late + seconds - self._predicted)
        self._begin(chunk, seconds)
        epoch, made = self._epoch, trio.current_time()
        if chunk.length and not chunk.audios:
            self._follow(seconds + between, chunk.length, made)
        origin = replace(origin, input_pts_us=self.input_pts_us)
        for index, (tracks, duration) in enumerate(chunk.split()):
            while (at := self._room(self._forecast.queue_at)) > trio.current_time() and not self._stale(epoch):
                self._waits()
                await self._wakeup.wait(at)
            if self._stale(epoch):
                self._drop_rest(tracks, chunk.length - index)
                return
            self._put(tracks, duration, origin, made)

    async def emit(self, chunk: Chunk, seconds: float | None, origin: Origin, drop: bool) -> None:
        """Queue what a run loop emitted: wait while the buffer is full, or with `drop` discard what finds no room."""
        self._begin(chunk, seconds)
        epoch, made = self._epoch, trio.current_time()
        origin = replace(origin, input_pts_us=self.input_pts_us)
        for index, (tracks, duration) in enumerate(chunk.split()):
            while (at := self._room(self._forecast.emit_at)) > (now := trio.current_time()) and not self._stale(epoch):
                if drop and self._paused_at is None:
                    break
                await self._wakeup.wait(at)
            if self._stale(epoch):
                self._drop_rest(tracks, chunk.length - index)
                return
            if at > now:  # the tail goes with it, also if room comes meanwhile: what is shown of a batch has no holes
                self._drop(tracks, chunk.length - index, "full")
                return
            self._put(tracks, duration, origin, made)

    async def push(self, chunk: Chunk, origin: Origin) -> None:
        """Queue a block of a blocking model, whose pushes are what sets the rate; waits while two blocks are queued."""
        assert isinstance(self._cadence, BlockCadence)
        self._replies.deliver()
        interval, now = self._cadence.interval, trio.current_time()
        self._cadence.pushed(now, chunk.length, self._forecast.waiting(now))
        if self._cadence.interval != interval:
            self._retime(self._cadence.interval)
        await self.emit(chunk, None, origin, drop=False)

    async def push_black(self, origin: Origin) -> None:
        """Queue one black frame of the last size behind what is queued; the rate is not told."""
        await self.emit(black_chunk(self._declaration.tracks, self._sizes), None, origin, drop=False)

    def count_drop(self, reason: str, frames: int) -> None:
        """Any thread: frames were dropped before they were accepted."""
        self._mailbox.send(self._playout.count_drop, "model", reason, frames)

    def monitor(self, enabled: bool) -> None:
        """Whether the time that passes is a blocking model's work."""
        assert isinstance(self._cadence, BlockCadence)
        if enabled:
            self._cadence.enable(trio.current_time())
        else:
            self._cadence.disable()

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate now, also for what is queued. Raises ValueError."""
        self._cadence.set_fps(fps)
        self._interval = None
        self._retime(self._cadence.interval)

    def flush(self, step: int, *, black: bool) -> None:
        """Drop what is queued, also the rest of a batch that waits for room; then show one black frame if asked."""
        self._epoch += 1
        self._replies.deliver()
        self._forecast.flushed(trio.current_time())
        self._mailbox.send(self._playout.flush, self._epoch)
        if black:
            for tracks, duration in black_chunk(self._declaration.tracks, self._sizes).split():
                self._put(tracks, duration, Origin(step), trio.current_time())
        self._wakeup.set()

    def close(self) -> None:
        """The session is over: what waits for room is released, nothing more is queued."""
        self.closed = True
        self._wakeup.set()

    # ---- heard from the session's other half -------------------------------------------------------------------------

    def limit(self, fps: float) -> None:
        """What the viewers' encoders take, in frames per second; from the next step on."""
        self._cadence.limit(fps)

    def pause(self, paused: bool) -> None:
        """Nobody watches from now on, or somebody does again."""
        now = trio.current_time()
        if self._paused_at is not None and isinstance(self._cadence, BlockCadence):
            self._cadence.stood_still(self._paused_at, now)
        self._paused_at = now if paused else None
        self._wakeup.set()

    def handed(self, until: float, epoch: int) -> None:
        """The oldest bundle is shown now, until `until`."""
        if epoch == self._epoch:
            self._forecast.handed(until)
        else:
            self._forecast.shown(until)
        self._wakeup.set()

    def shown(self, until: float) -> None:
        """The bundle on screen now ends at `until`."""
        self._forecast.shown(until)
        self._wakeup.set()

    # ---- inside -------------------------------------------------------------------------------------------------------

    @property
    def _predicted(self) -> float:
        return self._cadence.seconds_per_frame * self._frames_per_step

    def _room(self, at: Callable[[float], float]) -> float:
        self._replies.deliver()
        return at(trio.current_time()) if self._paused_at is None else math.inf

    def _retime(self, interval: float) -> None:
        self._forecast.retimed(interval)
        self._mailbox.send(self._playout.retime, interval)

    def _follow(self, seconds: float, frames: int, made: float) -> None:
        """Set how long the frames of a step that ended at `made` shall be shown."""
        self._smoother.observe(seconds, frames)
        self._replies.deliver()
        before, anew = self._interval, self._smoother.anew
        wait = self._smoother.delay if anew else self._forecast.runs_dry(made) - made
        self._interval = self._cadence.clamped(self._smoother.duration(wait))
        if anew and before is not None and self._interval < before:
            self._retime(self._interval)

    def _begin(self, chunk: Chunk, seconds: float | None) -> None:
        if chunk.length == 0:
            return
        if seconds is not None:
            self._cadence.observe(seconds, chunk.length)
        self._frames_per_step = chunk.length
        self._forecast.make_room_for(chunk.length * self._blocks)
        for name, frames in chunk.videos.items():
            height, width = frames.shape[-3:-1]
            self._sizes[name] = (int(height), int(width))

    def _stale(self, epoch: int) -> bool:
        return self.closed or epoch != self._epoch

    def _put(self, tracks: dict[str, FrameHandle], duration: float | None, origin: Origin, made: float) -> None:
        interval = self._interval or self._cadence.interval
        seconds = interval if duration is None else duration
        bundle = Bundle(
            tracks=tracks,
            seqs={name: self._next_seq(name) for name in tracks},
            duration=seconds, paced=duration is None, origin=origin, made=made,
        )  # fmt: skip
        ready = trio.current_time()
        self._forecast.put(ready, seconds, bundle.paced)
        self._mailbox.leave(self._playout.put, bundle, self._epoch, ready)

    def _next_seq(self, track: str) -> int:
        seq = self._seqs.get(track, 0)
        self._seqs[track] = seq + 1
        return seq

    def _drop_rest(self, tracks: dict[str, FrameHandle], bundles: int) -> None:
        """A batch found no room before a flush or the end of the session."""
        self._drop(tracks, bundles, "session_over" if self.closed else "flushed")

    def _drop(self, tracks: dict[str, FrameHandle], bundles: int, reason: str) -> None:
        for name in tracks:  # numbers are used up, so that a viewer sees the gap
            self._seqs[name] = self._seqs.get(name, 0) + bundles
        self._mailbox.send(self._playout.count_drop, "buffer", reason, bundles)
